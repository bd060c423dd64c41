package disklayer

import (
	"encoding/binary"
	"hash/fnv"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// An origin is the mark wsfs.origin: who a file was before it was copied up
// and, while its data is not durable, where that can be had again.
type origin struct {
	ino uint64 // as Attr.Origin
	// links is what the shown link count has over the file system's: names of
	// the lower file that were not copied up, less the link in the index. It
	// counts if indexed.
	links   int32
	indexed bool

	pending bool
	copy    copyNote // counts if pending

	bad bool // the mark is there and cannot be understood
}

// A copyNote says what a pending copy was copied from.
type copyNote struct {
	// layer is the number of the origin's layer in the layer table.
	layer uint64
	// name is the origin's name; empty if that is the name that the copy has
	// in the layers below.
	name string
	// size is that of origin and copy. A smaller copy is short.
	size int64
	// sparse: the copy was made with holes. Without, a hole is missing data.
	sparse bool
	// times stands for the origin's times. If it or the size differs now, the
	// file cannot be copied again.
	times uint64
}

// timesOf returns what stands for the times of a.
func timesOf(a overlay.Attr) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(a.Mtime.UnixNano()))
	binary.BigEndian.PutUint64(b[8:], uint64(a.Ctime.UnixNano()))
	h := fnv.New64a()
	h.Write(b[:])
	return h.Sum64()
}

// Flags in the first byte of the mark.
const (
	originIndexed = 1 << iota
	originPending
	originSparse
	originNamed

	originFlags = 1<<iota - 1
)

// bytes returns o as the mark's value. It is short on purpose: ext4 has about 50
// bytes for it in the inode, and a block of its own is several times slower.
func (o origin) bytes() []byte {
	flags := byte(0)
	if o.indexed {
		flags |= originIndexed
	}
	if o.pending {
		flags |= originPending
	}
	if o.pending && o.copy.sparse {
		flags |= originSparse
	}
	if o.pending && o.copy.name != "" {
		flags |= originNamed
	}
	b := binary.AppendUvarint(append(make([]byte, 0, 64), flags), o.ino)
	if o.indexed {
		b = binary.AppendVarint(b, int64(o.links))
	}
	if !o.pending {
		return b
	}
	b = binary.AppendUvarint(b, o.copy.layer)
	b = binary.AppendUvarint(b, uint64(o.copy.size))
	b = binary.BigEndian.AppendUint64(b, o.copy.times)
	return append(b, o.copy.name...)
}

// parseOrigin is the reverse of bytes.
func parseOrigin(b []byte) origin {
	if len(b) == 0 || b[0] > originFlags {
		return origin{bad: true}
	}
	flags := b[0]
	r := &numbers{b: b[1:]}
	o := origin{ino: r.uvarint(), indexed: flags&originIndexed != 0, pending: flags&originPending != 0}
	if o.indexed {
		o.links = int32(r.varint())
	}
	if o.pending {
		o.copy = copyNote{layer: r.uvarint(), size: int64(r.uvarint()), times: r.fixed(), sparse: flags&originSparse != 0}
		if flags&originNamed != 0 {
			o.copy.name, r.b = string(r.b), nil
		}
	}
	if r.bad || len(r.b) > 0 || o.copy.size < 0 || (o.copy.name == "") != (flags&originNamed == 0) || (!o.pending && flags&^originIndexed != 0) {
		return origin{bad: true}
	}
	return o
}

// numbers reads numbers from b; bad is set once one is missing.
type numbers struct {
	b   []byte
	bad bool
}

func (r *numbers) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return skip(r, v, n)
}

func (r *numbers) varint() int64 {
	v, n := binary.Varint(r.b)
	return skip(r, v, n)
}

func (r *numbers) fixed() uint64 {
	if len(r.b) < 8 {
		return skip(r, uint64(0), 0)
	}
	return skip(r, binary.BigEndian.Uint64(r.b), 8)
}

// skip takes the n bytes of v from r; n is not positive if there was no v.
func skip[T uint64 | int64](r *numbers, v T, n int) T {
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// settled returns o of a copy whose data is durable.
func (o origin) settled() origin {
	o.pending, o.copy = false, copyNote{}
	return o
}

// empty reports whether o says nothing.
func (o origin) empty() bool { return o == origin{} }

// shownLinks returns the link count that is told of a file with real links.
func (o origin) shownLinks(real uint32) uint32 {
	if !o.indexed {
		return real
	}
	return uint32(max(int64(real)+int64(o.links), 1))
}

// settleMark takes the note of a pending copy from the mark of the file at path,
// a link in /proc/self/fd. A file without a mark stays without.
func (m *markSet) settleMark(path string) error {
	value := make([]byte, 1<<11) // a pending mark is no longer than maxPending
	n, err := unix.Getxattr(path, m.attrs[markOrigin], value)
	if is(err, unix.ENODATA) {
		return nil
	}
	if err != nil {
		return err
	}
	o := parseOrigin(value[:n])
	switch {
	case o.bad || !o.pending:
		return nil
	case o.settled().empty():
		return unix.Removexattr(path, m.attrs[markOrigin])
	}
	return unix.Setxattr(path, m.attrs[markOrigin], o.settled().bytes(), unix.XATTR_REPLACE)
}

// maxPending bounds a pending mark. A copy that needs a longer one, for its
// name, is made durable at once.
const maxPending = 1 << 10
