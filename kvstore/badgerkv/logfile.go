package badgerkv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strconv"

	"github.com/dgraph-io/ristretto/v2/z"
)

// Badger's log of what is in memory (NNNNN.mem): a header, then entries
//
//	meta | user meta | uvarint key length, value length, expiry | key | value | crc
//
// The entries of a transaction are marked as such, their keys end with the
// commit number, and an entry with the number as its value ends them. Behind the
// last entry are zeros.
const (
	logHeader = 20 // bytes; the first 8 are the number of the encryption key, 0
	inTxn     = 1 << 6
	endsTxn   = 1 << 7
)

// txnKey is the key of entries that end a transaction, without the number.
var txnKey = []byte("!badger!txn")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An entry is one entry of a log.
type entry struct {
	meta    byte
	key     []byte // without the commit number
	version uint64
	value   []byte
	size    int // in the log
}

// readEntry returns the entry that data begins with; ok is false if there is
// none that is whole.
func readEntry(data []byte) (e entry, ok bool) {
	if len(data) < 2 {
		return entry{}, false
	}
	e.meta = data[0]
	pos := 2
	var field [3]uint64
	for i := range field {
		v, n := binary.Uvarint(data[pos:])
		if n <= 0 {
			return entry{}, false
		}
		field[i], pos = v, pos+n
	}
	klen, vlen := field[0], field[1]
	rest := uint64(len(data) - pos)
	if klen < 8 || klen > rest || vlen > rest-klen || rest-klen-vlen < crc32.Size {
		return entry{}, false
	}
	end := pos + int(klen+vlen)
	if crc32.Checksum(data[:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
		return entry{}, false
	}
	e.key = data[pos : pos+int(klen)-8]
	e.version = math.MaxUint64 - binary.BigEndian.Uint64(data[pos+int(klen)-8:])
	e.value = data[pos+int(klen) : end]
	e.size = end + crc32.Size
	return e, true
}

// A logRange is what a log holds.
type logRange struct {
	first, last uint64 // commit numbers; 0 if there are none
	end         int    // where the last whole transaction ends
}

// readLog returns what badger would read of a log.
func readLog(data []byte) logRange {
	r := logRange{end: logHeader}
	var open uint64 // the commit that is being read; 0 for none
	for pos := logHeader; pos < len(data); {
		e, ok := readEntry(data[pos:])
		if !ok {
			return r
		}
		pos += e.size
		switch {
		case e.meta&inTxn != 0 && (open == 0 || open == e.version):
			open = e.version
		case e.meta&endsTxn != 0 && open != 0 && string(e.value) == strconv.FormatUint(open, 10):
			if r.first == 0 {
				r.first = open
			}
			r.last, r.end, open = open, pos, 0
		default:
			return r
		}
	}
	return r
}

// lost reports whether tail, which follows the last whole transaction of a log,
// proves that acknowledged ones are gone. A transaction is begun when the one
// before is on the disk, so after a power cut there may be parts of the next
// one, number after+1, but nothing of a later one.
func lost(tail []byte, after uint64) bool {
	for {
		i := bytes.Index(tail, txnKey)
		if i < 0 {
			return false
		}
		// Before the key: meta, user meta, the lengths of the key and of a value
		// of up to 20 digits, no expiry.
		if i >= 5 {
			e, ok := readEntry(tail[i-5:])
			if ok && e.meta&endsTxn != 0 && e.version > after+1 {
				return true
			}
		}
		tail = tail[i+len(txnKey):]
	}
}

// verifyLog checks the log in the file path, which follows on the commit number
// after, and returns the number of the last commit it holds, or after. It cuts
// off nothing.
func verifyLog(path string, after uint64, synced bool) (last uint64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("badgerkv: open log: %w", err)
	}
	if info.Size() < logHeader {
		return after, nil // made, and never written
	}
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, fmt.Errorf("badgerkv: open log: %w", err)
	}
	defer file.Close(-1)
	if binary.BigEndian.Uint64(file.Data) != 0 {
		return 0, damaged(path, "the header of the log is wrong")
	}
	r := readLog(file.Data)
	if r.first > after+1 && synced {
		return 0, damaged(path, "the log begins with commit %d, and commits %d to %d are nowhere", r.first, after+1, r.first-1)
	}
	last = max(after, r.last)
	if synced && lost(file.Data[r.end:], last) {
		return 0, damaged(path, "the log is broken at byte %d, and there are later commits behind", r.end)
	}
	return last, nil
}

// trimLog removes the log in the file path if nothing was written to it, and
// cuts it off behind the last whole transaction unless zeros follow there.
func trimLog(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < logHeader {
		return os.Remove(path)
	}
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	end := readLog(file.Data).end
	next := file.Data[end:min(end+64, len(file.Data))]
	zeros := len(bytes.Trim(next, "\x00")) == 0
	if err := file.Close(-1); err != nil || zeros {
		return err
	}
	return os.Truncate(path, int64(end))
}
