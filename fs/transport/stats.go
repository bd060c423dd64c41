package transport

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the length of a latency histogram: bucket i counts the requests
// that took less than 2^i microseconds and were not counted in a lower one;
// the last has all that took longer.
const Buckets = 24

// OpStats is what happened to the requests of one opcode.
type OpStats struct {
	Op      string
	Count   uint64
	Errors  uint64 // answers with an errno, ENOENT of a LOOKUP included
	Total   time.Duration
	Latency [Buckets]uint64 // time to handle and answer
}

// Stats is a moment's reading of a server's counters. Readers do not stop for
// it, so that sums may be off by the requests in flight.
type Stats struct {
	Ops     []OpStats // those with a count, in the order of the protocol's numbers
	Readers int       // running now, spare ones included
	Spares  int       // running now
	// SparesStarted counts the spares that ever joined.
	SparesStarted uint64
}

// opcodes is the number of opcodes counted apart; higher ones share the last.
const opcodes = 64

// tally counts one reader's requests. Only that reader adds, so the cache
// lines stay with its CPU.
type tally struct {
	ops [opcodes]opTally
}

type opTally struct {
	count, errors, nanos atomic.Uint64
	latency              [Buckets]atomic.Uint64
}

func (t *tally) add(op uint32, took time.Duration, failed bool) {
	o := &t.ops[min(op, opcodes-1)]
	o.count.Add(1)
	o.nanos.Add(uint64(took))
	o.latency[bucket(took)].Add(1)
	if failed {
		o.errors.Add(1)
	}
}

// bucket returns the bucket of a histogram that took belongs to.
func bucket(took time.Duration) int {
	return min(bits.Len64(uint64(took/time.Microsecond)), Buckets-1)
}

// sum returns the counts of all tallies, opcode by opcode.
func sum(tallies []*tally) []OpStats {
	var all []OpStats
	for op := range opcodes {
		s := OpStats{Op: opName(uint32(op))}
		for _, t := range tallies {
			o := &t.ops[op]
			s.Count += o.count.Load()
			s.Errors += o.errors.Load()
			s.Total += time.Duration(o.nanos.Load())
			for i := range s.Latency {
				s.Latency[i] += o.latency[i].Load()
			}
		}
		if s.Count > 0 {
			all = append(all, s)
		}
	}
	return all
}

// opNames are the protocol's names for its opcodes (include/uapi/linux/fuse.h).
var opNames = [...]string{
	1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR",
	10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS",
	18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH",
	26: "INIT", 27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 31: "GETLK", 32: "SETLK",
	33: "SETLKW", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT", 37: "BMAP", 38: "DESTROY", 39: "IOCTL", 40: "POLL",
	41: "NOTIFY_REPLY", 42: "BATCH_FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME2", 46: "LSEEK",
	47: "COPY_FILE_RANGE", 48: "SETUPMAPPING", 49: "REMOVEMAPPING", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX",
	53: "COPY_FILE_RANGE_64",
}

func opName(op uint32) string {
	if op < uint32(len(opNames)) && opNames[op] != "" {
		return opNames[op]
	}
	return "OTHER"
}
