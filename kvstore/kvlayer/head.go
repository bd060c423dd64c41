package kvlayer

import (
	"slices"
	"strings"
)

// A head is the one value that every commit of a namespace changes and checks.
type head struct {
	commit uint64 // number of the newest commit; the first is 1
	bytes  int64  // in all files of all segments
	segs   []segHead
}

// A segHead is a segment's part of the head.
type segHead struct {
	name  string
	last  uint64 // the newest commit that changed this segment
	stamp uint64 // the random number of that commit
	ino   uint64 // the largest inode number given
	bytes int64  // in all files
	files uint64 // records
	// sweeps counts the times chunks were removed. Who uploads chunks before
	// a commit notes it first: if it has changed, they may be gone again.
	sweeps uint64
	// floor is the oldest commit whose state is whole, but for pinned ones.
	floor uint64
}

// seg returns the part of the segment name, which it adds if there is none.
func (h *head) seg(name string) *segHead {
	i, found := slices.BinarySearchFunc(h.segs, name, func(s segHead, name string) int {
		return strings.Compare(s.name, name)
	})
	if !found {
		h.segs = slices.Insert(h.segs, i, segHead{name: name})
	}
	return &h.segs[i]
}

// clone returns a head whose segments can be changed apart from h's.
func (h head) clone() head {
	h.segs = slices.Clone(h.segs)
	return h
}

func (h head) encode() []byte {
	e := newEncoder(16 + 64*len(h.segs))
	e.uint(h.commit)
	e.int(h.bytes)
	e.uint(uint64(len(h.segs)))
	for _, s := range h.segs {
		e.string(s.name)
		e.uint(s.last)
		e.uint(s.stamp)
		e.uint(s.ino)
		e.int(s.bytes)
		e.uint(s.files)
		e.uint(s.sweeps)
		e.uint(s.floor)
	}
	return e.b
}

func decodeHead(b []byte) (head, error) {
	d := newDecoder(b)
	h := head{commit: d.uint(), bytes: d.int()}
	for range d.count(8) {
		s := segHead{name: d.string(), last: d.uint(), stamp: d.uint(), ino: d.uint(), bytes: d.int()}
		s.files, s.sweeps, s.floor = d.uint(), d.uint(), d.uint()
		h.segs = append(h.segs, s)
	}
	if !slices.IsSortedFunc(h.segs, func(a, b segHead) int { return strings.Compare(a.name, b.name) }) {
		d.fail()
	}
	return h, d.end()
}
