package badgerkv

import (
	"encoding/binary"

	"github.com/wsfs/wsfs/kvstore"
)

// Badger's key space is divided by the first byte of a key.
const (
	dataSpace = 'd' // 'd' key: what the key holds
	partSpace = 'p' // 'p' blob index: a further part of a long value
	metaSpace = 'm' // 'm' name: the store's own records
)

// markerKey is written by every commit, so that the largest commit number is
// never forgotten.
var markerKey = []byte{metaSpace, 'v'}

// padKey is what the store fills its log with.
var padKey = string([]byte{metaSpace, 'p'})

// maxPart is the longest value that is put into the tree in one piece, below
// the length from which badger would use its value log.
const maxPart = 1<<20 - 1<<10

// blobLen is the length of a blob number in bytes. The record of a value that
// is cut begins with the number under which its further parts are kept.
const blobLen = 8

// dataKey returns the badger key of key.
func dataKey(key kvstore.Key) []byte {
	k := make([]byte, 1, 1+len(key))
	k[0] = dataSpace
	return append(k, key...)
}

// partKey returns the badger key of a further part of a blob, from 1.
func partKey(blob uint64, index int) []byte {
	k := make([]byte, 1, 1+blobLen+1)
	k[0] = partSpace
	return append(binary.BigEndian.AppendUint64(k, blob), byte(index))
}

// parts returns how many parts follow the record of a value of size bytes.
func parts(size int) int {
	if size <= maxPart {
		return 0
	}
	return (size - 1) / maxPart
}

// cut returns the record of value and its further parts, for a value that has
// some. All of them are copies.
func cut(value []byte, blob uint64) (record []byte, further [][]byte) {
	record = binary.BigEndian.AppendUint64(make([]byte, 0, blobLen+maxPart), blob)
	record = append(record, value[:maxPart]...)
	for rest := value[maxPart:]; len(rest) > 0; {
		n := min(len(rest), maxPart)
		further = append(further, append([]byte(nil), rest[:n]...))
		rest = rest[n:]
	}
	return record, further
}
