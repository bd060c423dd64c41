package kvlayer

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// The kinds of keys. kindHead is in the namespace, the others are in a segment
// of it. doc.go describes what each of them holds.
const (
	kindHead    = 'n'
	kindSegment = 's'

	kindEntry  = 'e'
	kindRecord = 'r'
	kindUndo   = 'u'
	kindCommit = 'c'
	kindLog    = 'l'
	kindChunk  = 'k'
	kindIndex  = 'i'
	kindPin    = 'p'
	kindOwner  = 'o'
)

// maxPrefix is the longest a segment's prefix may be, so that every key in it
// fits: kind, kind, directory, name, terminator, commit.
const maxPrefix = kvstore.MaxKey - (1 + 1 + 8 + overlay.MaxComponent + 1 + 8)

// keys builds the keys of a segment. Lengths stand before names, so no
// namespace's or segment's keys begin with the prefix of another one's.
type keys struct {
	head kvstore.Key // of the namespace
	seg  string      // what every other key begins with
}

// newKeys fails if some name in the segment would make a key too long.
func newKeys(ns, segment string) (keys, error) {
	space := lengthPrefixed(ns)
	k := keys{
		head: kvstore.Key(space + string(rune(kindHead))),
		seg:  space + string(rune(kindSegment)) + lengthPrefixed(segment),
	}
	if len(ns) > maxPrefix || len(k.seg) > maxPrefix {
		return keys{}, fmt.Errorf("kvlayer: namespace and segment have %d bytes, at most %d fit in a key", len(ns)+len(segment), maxPrefix)
	}
	return k, nil
}

// lengthPrefixed makes s a string that no other such string begins with.
func lengthPrefixed(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// prefix is what all keys of kind begin with, and then rest.
func (k keys) prefix(kind byte, rest ...byte) kvstore.Key {
	b := make([]byte, 0, len(k.seg)+1+len(rest))
	b = append(b, k.seg...)
	b = append(b, kind)
	return kvstore.Key(append(b, rest...))
}

// number is a key of kind that is, or begins with, the number n.
func (k keys) number(kind byte, n uint64) kvstore.Key {
	return k.prefix(kind, binary.BigEndian.AppendUint64(nil, n)...)
}

func (k keys) record(ino uint64) kvstore.Key { return k.number(kindRecord, ino) }
func (k keys) dir(dir uint64) kvstore.Key    { return k.number(kindEntry, dir) }
func (k keys) commit(n uint64) kvstore.Key   { return k.number(kindCommit, n) }

func (k keys) entry(at link) kvstore.Key {
	return k.number(kindEntry, at.dir) + kvstore.Key(at.name)
}

func (k keys) chunk(d digest) kvstore.Key { return k.prefix(kindChunk, d[:]...) }
func (k keys) index(d digest) kvstore.Key { return k.prefix(kindIndex, d[:]...) }

// undoRecords is the prefix of all that ino was before, the newest first.
func (k keys) undoRecords(ino uint64) kvstore.Key {
	return k.prefix(kindUndo, binary.BigEndian.AppendUint64([]byte{kindRecord}, ino)...)
}

// undoDir is the prefix of all that the names in dir were before.
func (k keys) undoDir(dir uint64) kvstore.Key {
	return k.prefix(kindUndo, binary.BigEndian.AppendUint64([]byte{kindEntry}, dir)...)
}

// undoEntries is the prefix of all that a name was before, the newest first.
// Names hold no NUL, so the terminator keeps "a" and "ab" apart.
func (k keys) undoEntries(at link) kvstore.Key {
	return k.undoDir(at.dir) + kvstore.Key(at.name) + "\x00"
}

// log is the prefix of the versions a name had, the newest first.
func (k keys) log(at link) kvstore.Key {
	return k.number(kindLog, at.dir) + kvstore.Key(at.name) + "\x00"
}

// before completes the key of an undo record or log line of commit n: the
// complement has the newest come first in a scan.
func before(prefix kvstore.Key, n uint64) kvstore.Key {
	return prefix + kvstore.Key(binary.BigEndian.AppendUint64(nil, ^n))
}

// splitBefore takes apart what before made. ok is false for another key.
func splitBefore(key kvstore.Key) (prefix kvstore.Key, n uint64, ok bool) {
	at := len(key) - 8
	if at < 0 {
		return "", 0, false
	}
	return key[:at], ^binary.BigEndian.Uint64([]byte(key[at:])), true
}

// lastNumber returns the number that key ends with.
func lastNumber(key kvstore.Key) uint64 {
	_, n, _ := splitBefore(key)
	return ^n
}

// splitName returns the name that ends an undo key of an entry, after prefix.
func splitName(key, prefix kvstore.Key) (name string, n uint64, ok bool) {
	head, n, ok := splitBefore(key)
	if !ok || !strings.HasPrefix(string(head), string(prefix)) {
		return "", 0, false
	}
	name, terminated := strings.CutSuffix(string(head[len(prefix):]), "\x00")
	return name, n, terminated && name != ""
}
