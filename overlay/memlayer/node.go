package memlayer

import (
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A node is a file. Everything in it is guarded by the layer's mu, but for
// ino and the type bits of mode, which never change.
type node struct {
	ino    uint64
	mode   uint32
	uid    uint32
	gid    uint32
	rdev   uint64
	atime  time.Time
	mtime  time.Time
	ctime  time.Time
	xattrs map[string][]byte

	names   int  // entries that are this node
	opens   int  // handles on it
	dropped bool // its space was given back: no name and no handle is left

	data     data             // of a regular file
	target   string           // of a symbolic link
	children map[string]*node // of a directory; whiteout where a name is gone
	subdirs  int              // of a directory: directories in it

	opaque   bool         // of a directory
	redirect overlay.Name // of a directory; "" if there is none

	origin  uint64 // Attr.Origin
	indexed bool   // in the layer's index under origin
	// left is the number of names of the origin that were not copied up.
	left int
}

// whiteout stands in children where a name is recorded as gone.
var whiteout = &node{mode: overlay.TypeChar}

// newNode returns a node without a name; mode is type and permission bits.
func newNode(mode uint32) *node {
	now := time.Now().Round(0)
	n := &node{ino: lastIno.Add(1), mode: mode, atime: now, mtime: now, ctime: now}
	if n.kind() == overlay.TypeDir {
		n.children = make(map[string]*node)
	}
	return n
}

// kind returns the type bits of n.
func (n *node) kind() uint32 { return n.mode & overlay.TypeMask }

// empty reports whether the directory n holds nothing but whiteouts.
func (n *node) empty() bool {
	for _, c := range n.children {
		if c != whiteout {
			return false
		}
	}
	return true
}

// nlink returns the link count of n.
func (n *node) nlink() uint32 {
	if n.kind() == overlay.TypeDir {
		if n.names == 0 {
			return 0
		}
		return uint32(2 + n.subdirs)
	}
	return uint32(n.names + n.left)
}

// size returns the st_size of n.
func (n *node) size() int64 {
	switch n.kind() {
	case overlay.TypeReg:
		return n.data.size
	case overlay.TypeLink:
		return int64(len(n.target))
	case overlay.TypeDir:
		return pageSize
	}
	return 0
}

// attr returns the attributes of n.
//
// Preconditions: l.mu is held, shared or not.
func (l *Layer) attr(n *node) overlay.Attr {
	a := overlay.Attr{
		Dev: l.opt.Dev, Ino: n.ino,
		Mode: n.mode, Nlink: n.nlink(), UID: n.uid, GID: n.gid, Rdev: n.rdev,
		Size: n.size(), Blocks: int64(len(n.data.pages)) * pageSize / 512,
		Atime: n.atime, Mtime: n.mtime, Ctime: n.ctime,
		Source: l.opt.Source, Origin: n.origin,
	}
	if l.opt.Source == overlay.Store && n.kind() == overlay.TypeReg {
		a.Version = uint64(n.data.version) + 1
	}
	return a
}

// put makes n the entry base of dir, instead of what is there.
//
// Preconditions: l.mu is held; a node at base is a file or an empty directory.
func (l *Layer) put(dir *node, base string, n *node) {
	l.take(dir, base)
	dir.children[base] = n
	n.names++
	if n.kind() == overlay.TypeDir {
		dir.subdirs++
	}
	l.touch(dir, base)
}

// take takes the entry base, if there is one, out of dir.
//
// Preconditions: l.mu is held.
func (l *Layer) take(dir *node, base string) {
	n := dir.children[base]
	if n == nil {
		return
	}
	delete(dir.children, base)
	l.touch(dir, base)
	if n == whiteout {
		return
	}
	n.names--
	n.ctime = l.now()
	if n.kind() == overlay.TypeDir {
		dir.subdirs--
		l.tell(n, "")
	}
	l.release(n)
}

// release gives the space of n back when nothing refers to it any more.
//
// Preconditions: l.mu is held.
func (l *Layer) release(n *node) {
	if n.indexed && n.names+n.left <= 0 {
		delete(l.index, n.origin)
		n.indexed = false
	}
	if n.names > 0 || n.opens > 0 || n.indexed || n.dropped {
		return
	}
	n.dropped = true
	l.used -= int64(len(n.data.pages)) * pageSize
}

// touch notes a change of dir's entry base.
//
// Preconditions: l.mu is held.
func (l *Layer) touch(dir *node, base string) {
	dir.mtime = l.now()
	dir.ctime = dir.mtime
	l.tell(dir, base)
}
