// Package memlayer is a layer in memory: an Upper with every ability, that can
// also stand as a lower. It is the model other layers are compared with and
// the double that tests of other packages stand on, so it keeps to the
// contract of package overlay to the letter and to the semantics of ext4 where
// the contract is silent:
//
//   - A file lives until its last name and its last handle are gone.
//   - A directory's link count is 2 and one for each directory in it.
//   - Access ACLs and permission bits follow each other, and default ACLs are
//     inherited (acl(5)).
//   - Holes take no space; Options.Bytes bounds what the rest takes (ENOSPC).
//
// All layers of a process share one counter of inode numbers, as directories of
// one disk do, unless Options.Dev puts them on different devices.
//
// Changes are told to watchers (overlay.Watcher), also those that the caller
// made through the layer itself: a test changes a Host layer as another
// program would.
//
// One lock per layer guards everything in it and is the last of the lock
// order. It is not held while a copy is read or a callback runs.
package memlayer
