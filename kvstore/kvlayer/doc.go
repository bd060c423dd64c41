// Package kvlayer shows a segment of a store's namespace as a layer: a tree of
// files that several daemons share and write to at once.
//
// # What is promised
//
// Every change of the tree is one batch, which checks that nobody has committed
// since it was prepared, and is prepared anew if somebody has. So changes of all
// layers on one store are as if made one after the other.
//
// Content is close-to-open: Open sees what was committed last; what is written
// is seen at once by every handle in the same layer, and by other layers when a
// handle is flushed, synced or closed. Such a commit is made against the version
// that was opened. If there is a newer one, a Policy says what becomes of it;
// nothing is overwritten silently, and nothing is lost silently. If the file
// itself is gone, because another editor saved by renaming or removed it, what
// was written goes to the file that has its name now, by the same policies, or
// to a sidecar.
//
// A Flush, Sync or change of the tree that returned nil is as durable as the
// store makes its batches. After a crash there is nothing to repair: chunks
// that were uploaded for a commit that never came are swept.
//
// A store that does not answer is EIO after Options.Timeout, then at once for a
// second; what is cached stays readable. A full store is ENOSPC, a file over
// MaxFile EFBIG, a namespace over its quota EDQUOT, with the file as it was.
//
// # Keys and values
//
// A namespace has one head. A segment's keys begin with the namespace and the
// segment, each with its length before it, and a byte for the kind. Numbers in
// keys are 8 bytes, big endian; ^N is their complement, so that a scan meets the
// newest first. Values begin with a format version; see codec.go.
//
//	head       n                      commit number, bytes, and per segment: newest commit, last inode number, sums
//	entry      e DIR NAME             type, inode number and origin of a file, or that the name is gone
//	record     r INO                  attributes, names, content up to 4 KiB, or digests of chunks
//	chunk      k DIGEST               up to 64 KiB of a file up to 4 MiB, up to 1 MiB of a larger one
//	index      i DIGEST               that there is the chunk
//	commit     c N                    when, who, and which names it touched
//	log line   l DIR NAME 00 ^N       what commit N did at the name: a Version
//	undo       u e DIR NAME 00 ^N     the entry as it was before commit N
//	           u r INO ^N             the record as it was before commit N
//	pin        p ID                   a commit to keep
//	owner      o OWNER                that a layer lives, and from which commit on it reads
//
// A file's number is never given twice. Its version is the number of the commit
// that made its content, so it grows over removal, too.
//
// # History
//
// A commit costs as much history as it changes: it keeps what it replaces in
// undo records. The state after commit N has, for each key, the undo record of
// the first commit after N, or else the present value. Sweep removes undo
// records that no state needs that is kept by Options.History, by a pin, or by
// a living layer's open file. Chunks are never counted; Sweep looks which ones
// no record mentions.
//
// # Files without a name
//
// Removing a file removes its record at once. An open one lives on in its
// handles: what it holds uncommitted is this process', and what was committed is
// in history, where the owner's record keeps it until the last handle is closed
// or the owner is dead. So there is nothing to clean up after a crash, and
// nothing that a starting daemon could take from a living one.
//
// # Locks
//
// In this order: file.write, Layer.commit, Layer.mu, file.mu; watches.mu and
// chunkCache.mu last. Only file.write and Layer.commit are held across calls of
// the store: the first keeps a file still while it is committed, the second
// orders this layer's commits. Reads take neither.
package kvlayer
