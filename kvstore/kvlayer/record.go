package kvlayer

import (
	"crypto/sha256"
	"math"
	"slices"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A digest names content. The zero digest is a chunk of zeros, which is not
// stored.
type digest [sha256.Size]byte

// A link is a place in a directory: a name of a file.
type link struct {
	dir  uint64
	name string
}

// A record is all that is known of a file but its content beyond maxInline.
// Records are never changed once they are shared: clone, change, store.
type record struct {
	ino uint64 // the key

	mode    uint32 // type and permission bits
	uid     uint32
	gid     uint32
	rdev    uint64
	atime   time.Time
	mtime   time.Time
	ctime   time.Time
	origin  uint64 // see overlay.Attr
	version uint64 // the commit that made the content, or changed the directory
	xattrs  []overlay.Xattr

	// links are all names of the file, in the order they were given. A
	// directory has one, the root none. A record in the store has at least one
	// link or is the root.
	links []link

	target string // of a symbolic link

	content // of a regular file

	// Of a directory: how many names in it are files, how many of these are
	// directories, and its marks.
	children uint64
	subdirs  uint64
	opaque   bool
	redirect string
}

// A content is what a regular file holds: size bytes, in inline if they are at
// most maxInline, else in chunks of 1<<shift bytes (the last one is shorter).
// Which of these, and shift, follow from size alone, so that equal files have
// equal digests.
type content struct {
	size   int64
	inline []byte
	shift  uint8
	chunks []digest
}

// digest names the content: the hash of the bytes, or of the chunks' digests.
func (c content) digest() digest {
	if c.shift == 0 {
		return sha256.Sum256(c.inline)
	}
	h := sha256.New()
	for _, d := range c.chunks {
		h.Write(d[:])
	}
	return digest(h.Sum(nil))
}

// clone returns a record that can be changed. Content is replaced, never changed,
// and so shared.
func (r *record) clone() *record {
	c := *r
	c.links = slices.Clone(r.links)
	c.xattrs = slices.Clone(r.xattrs)
	return &c
}

func (r *record) typ() uint32 { return r.mode & overlay.TypeMask }
func (r *record) isDir() bool { return r.typ() == overlay.TypeDir }
func (r *record) isReg() bool { return r.typ() == overlay.TypeReg }

// nlink counts as file systems do: a directory has a name, a dot, and the dot-dot
// of each directory in it.
func (r *record) nlink() uint32 {
	if r.isDir() {
		return uint32(min(2+r.subdirs, math.MaxUint32))
	}
	return uint32(len(r.links))
}

// entry is what a directory says of a name of r.
func (r *record) entry() entry { return entry{typ: r.typ(), ino: r.ino, origin: r.origin} }

// attr is what Lstat tells of r, if nothing is uncommitted.
func (r *record) attr(dev uint64) overlay.Attr {
	size := r.size
	if r.typ() == overlay.TypeLink {
		size = int64(len(r.target))
	}
	return overlay.Attr{
		Dev: dev, Ino: r.ino,
		Mode: r.mode, Nlink: r.nlink(), UID: r.uid, GID: r.gid, Rdev: r.rdev,
		Size: size, Blocks: (size + 511) / 512,
		Atime: r.atime, Mtime: r.mtime, Ctime: r.ctime,
		Source: overlay.Store, Origin: r.origin, Version: r.version,
	}
}

// encode returns r's value. Equal records have equal values.
func (r *record) encode() []byte {
	e := newEncoder(128 + len(r.inline) + len(r.chunks)*len(digest{}))
	e.uint(uint64(r.mode))
	e.uint(uint64(r.uid))
	e.uint(uint64(r.gid))
	e.uint(r.rdev)
	e.time(r.atime)
	e.time(r.mtime)
	e.time(r.ctime)
	e.uint(r.origin)
	e.uint(r.version)
	e.uint(uint64(len(r.xattrs)))
	for _, x := range r.xattrs {
		e.string(x.Name)
		e.bytes(x.Value)
	}
	e.uint(uint64(len(r.links)))
	for _, at := range r.links {
		e.uint(at.dir)
		e.string(at.name)
	}
	switch r.typ() {
	case overlay.TypeReg:
		r.content.encode(e)
	case overlay.TypeLink:
		e.string(r.target)
	case overlay.TypeDir:
		e.uint(r.children)
		e.uint(r.subdirs)
		e.bool(r.opaque)
		e.string(r.redirect)
	}
	return e.b
}

func (c content) encode(e *encoder) {
	e.uint(uint64(c.size))
	e.uint(uint64(c.shift))
	if c.shift == 0 {
		e.bytes(c.inline)
		return
	}
	for _, d := range c.chunks {
		e.b = append(e.b, d[:]...)
	}
}

// decodeRecord returns the record of ino that b is the value of; it keeps b.
func decodeRecord(ino uint64, b []byte) (*record, error) {
	d := newDecoder(b)
	r := &record{ino: ino, mode: d.uint32(overlay.TypeMask | overlay.ModeMask)}
	r.uid, r.gid, r.rdev = d.uint32(math.MaxUint32), d.uint32(math.MaxUint32), d.uint()
	r.atime, r.mtime, r.ctime = d.time(), d.time(), d.time()
	r.origin, r.version = d.uint(), d.uint()
	for range d.count(2) {
		r.xattrs = append(r.xattrs, overlay.Xattr{Name: d.string(), Value: d.bytes()})
	}
	for range d.count(2) {
		r.links = append(r.links, link{dir: d.uint(), name: d.string()})
	}
	switch r.typ() {
	case overlay.TypeReg:
		r.content = decodeContent(d)
	case overlay.TypeLink:
		r.target = d.string()
	case overlay.TypeDir:
		r.children, r.subdirs = d.uint(), d.uint()
		r.opaque, r.redirect = d.bool(), d.string()
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return r, nil
}

// decodeContent refuses what is not cut as chunkShift says: a digest would not
// name the content then.
func decodeContent(d *decoder) content {
	c := content{size: int64(d.uint()), shift: uint8(d.uint32(math.MaxUint8))}
	if c.size < 0 || c.size > MaxFile || c.shift != chunkShift(c.size) {
		d.fail()
		return content{}
	}
	if c.shift == 0 {
		if c.inline = d.bytes(); int64(len(c.inline)) != c.size {
			d.fail()
		}
		return c
	}
	n := chunkCount(c.size, c.shift)
	all := d.take(uint64(n) * uint64(len(digest{})))
	if d.err != nil {
		return content{}
	}
	c.chunks = make([]digest, n)
	for i := range c.chunks {
		copy(c.chunks[i][:], all[i*len(digest{}):])
	}
	return c
}

// An entry is what a directory says of a name: that there is a file, that it is
// gone, or, the zero entry, nothing.
type entry struct {
	typ      uint32 // the file's, 0 if there is none
	ino      uint64 // the file's, 0 if there is none
	origin   uint64 // the file's
	whiteout bool
}

// gone is the entry that says that the name is gone.
var gone = entry{whiteout: true}

// exists reports whether there is a file.
func (e entry) exists() bool { return e.ino != 0 }

func (e entry) encode() []byte {
	enc := newEncoder(24)
	enc.uint(uint64(e.typ))
	enc.uint(e.ino)
	enc.uint(e.origin)
	enc.bool(e.whiteout)
	return enc.b
}

func decodeEntry(b []byte) (entry, error) {
	d := newDecoder(b)
	e := entry{typ: d.uint32(overlay.TypeMask), ino: d.uint(), origin: d.uint(), whiteout: d.bool()}
	if (e.typ == 0) != (e.ino == 0) || e.whiteout == e.exists() {
		d.fail()
	}
	return e, d.end()
}
