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
// A version is the number of the commit. Commits have ascending numbers without
// a gap; the last one is found again as the largest number in the tables and
// logs. Merging tables may drop the record that held it, so each commit writes a
// marker key, which is never deleted, and numbers only grow, over deletion,
// merging and reopening.
//
// Readers see the last durable commit: they never wait for a write, and never
// see what a power cut may take back.
//
// # Space
//
// Every value lives in the log-structured tree, none in badger's value log:
// overwritten values are reclaimed when tables are merged (tidy.go), and there is
// no log that grows until somebody collects it. Values too long for the tree are
// cut into parts (encode.go).
//
// Badger writes its files through memory maps, and a full disk kills a process
// that writes to a hole of a mapped file (SIGBUS). Therefore the files that a
// commit writes have their blocks allocated before (room.go), a batch that may
// need more than is free is refused with ErrFull, and tables are merged only while
// far more is free than that takes. What remains: a disk that another program
// fills to the last byte within the tenths of a second in which a table is
// written ends the process. Nothing that was acknowledged is lost by it.
//
// # Damage
//
// Open reads every file and checks it (verify.go): 0.3 s for a gigabyte in memory.
// A store that is not whole is refused, and not changed.
//
// # Locks
//
//	Store.alive: shared by every call, exclusively by Close
//	  tidier.mu
//	    timeline.mu, tidier.merging, the feed's
//
// Everything else that changes belongs to the one goroutine that commits.
package badgerkv
