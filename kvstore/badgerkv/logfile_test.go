package badgerkv

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strconv"
	"testing"
)

// appendEntry appends an entry as badger writes it.
func appendEntry(log []byte, meta byte, key, value string, version uint64) []byte {
	start := len(log)
	log = append(log, meta, 0)
	log = binary.AppendUvarint(log, uint64(len(key)+8))
	log = binary.AppendUvarint(log, uint64(len(value)))
	log = append(log, 0)
	log = append(log, key...)
	log = binary.BigEndian.AppendUint64(log, math.MaxUint64-version)
	log = append(log, value...)
	return binary.BigEndian.AppendUint32(log, crc32.Checksum(log[start:], castagnoli))
}

// appendCommit appends a transaction of two entries.
func appendCommit(log []byte, version uint64) []byte {
	log = appendEntry(log, inTxn, "dkey", "value", version)
	log = appendEntry(log, inTxn, "mv", "", version)
	return appendEntry(log, endsTxn, string(txnKey), strconv.FormatUint(version, 10), version)
}

// logOf returns a log of commits, followed by zeros.
func logOf(versions ...uint64) []byte {
	log := make([]byte, logHeader)
	for _, v := range versions {
		log = appendCommit(log, v)
	}
	return append(log, make([]byte, 300)...)
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	one := len(logOf(5)) - 300
	for _, c := range []struct {
		name string
		log  []byte
		want logRange
	}{
		{"nothing", nil, logRange{0, 0, logHeader}},
		{"no commit", logOf(), logRange{0, 0, logHeader}},
		{"commits", logOf(5, 6, 7), logRange{5, 7, len(logOf(5, 6, 7)) - 300}},
		{"half a commit", append(logOf(5)[:one], logOf(6)[logHeader:logHeader+40]...), logRange{5, 5, one}},
		{"no end", appendEntry(logOf(5)[:one], inTxn, "dkey", "value", 6), logRange{5, 5, one}},
		{"end of another", appendEntry(appendEntry(logOf(5)[:one], inTxn, "dkey", "", 6), endsTxn, string(txnKey), "7", 7), logRange{5, 5, one}},
	} {
		if got := readLog(c.log); got != c.want {
			t.Errorf("readLog of %s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after uint64
		tail  []byte
		want  bool
	}{
		{"zeros", 4, make([]byte, 1000), false},
		{"the next commit", 4, logOf(5), false},
		{"the end of the next commit", 4, logOf(5)[logHeader+10:], false},
		{"the commit after the next", 4, logOf(6), true},
		{"both, the next broken", 4, logOf(5, 6)[logHeader+10:], true},
		{"the commit after the next, broken", 4, logOf(6)[:len(logOf(6))-302], false},
		{"an old one", 4, logOf(3), false},
	} {
		if got := lost(c.tail, c.after); got != c.want {
			t.Errorf("lost with %s behind commit %d: got %v, want %v", c.name, c.after, got, c.want)
		}
	}
}

// FuzzLog reads logs of any content: nothing fails, and what is read is within
// the log and is read again from what was cut off there.
func FuzzLog(f *testing.F) {
	f.Add([]byte{})
	f.Add(logOf(1, 2, 3))
	f.Add(logOf(7)[:60])
	f.Fuzz(func(t *testing.T, log []byte) {
		r := readLog(log)
		if r.end > max(len(log), logHeader) || r.first > r.last {
			t.Fatalf("readLog of %d bytes: got %+v", len(log), r)
		}
		if r.end <= len(log) {
			if again := readLog(log[:r.end]); again != r {
				t.Fatalf("readLog of what was read: got %+v, want %+v", again, r)
			}
			lost(log[r.end:], r.last)
		}
	})
}

// FuzzFooter reads ends of tables of any content.
func FuzzFooter(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{1, 2, 3, 0, 0, 0, 3, 8, 0, 0, 0, 0, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := verifyFooter(data); err == nil && len(data) < 8 {
			t.Fatalf("verifyFooter of %d bytes: got nil", len(data))
		}
	})
}
