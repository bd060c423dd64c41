// Package badgerkv is the embedded store: a directory on local disk that one
// process has open at a time.
//
// # Promises
//
// A batch for which Apply returned nil survives kill -9 and a power cut: its
// log is on the disk (msync) before Apply returns, unless Options.NoSync is
// set. A batch is there as a whole or not at all. Batches that are applied at
// the same time share one write and one sync.
//
// Versions are badger's commit numbers. Badger derives its next number from the
// largest one it finds, and compaction may drop the record that held it; so
// each commit writes a marker key, which is never deleted, and numbers only
// grow, over deletion, compaction and reopening.
//
// # Space
//
// Every value lives in the log-structured tree, none in badger's value log:
// overwritten values are reclaimed by compaction, and there is no log that
// grows until somebody collects it. Values too long for the tree are cut into
// parts (encode.go).
//
// Badger writes its files through memory maps, and a full disk kills a process
// that writes to a hole of a mapped file (SIGBUS). Therefore the files that a
// commit writes have their blocks allocated before (space.go), and a batch that
// may need more than is free is refused with ErrFull.
//
// # Locks
//
// alive is held shared by every call and exclusively by Close. Everything else
// that changes belongs to the one goroutine that commits.
package badgerkv
