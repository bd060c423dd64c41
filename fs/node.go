//go:build linux

package fs

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// rootID is the node number that the kernel gives the root directory.
const rootID = 1

// A node is a file that the kernel knows, or the parent of one. There may be
// millions, so that rare state is behind pointers.
type node struct {
	id  uint64 // immutable; never given to another file
	ino uint64 // immutable: Attr.Ino of the file
	typ uint32 // immutable: file type bits
	seg uint8  // immutable: the lock of its segment, see segments

	// state says what the names are worth. Protected by table.mu.
	state nodeState

	// parent and name are where the file is, and more are its further names.
	// They keep their last value when the node is unlinked. Protected by
	// table.mu; they change only with the node's segment lock held exclusively,
	// but that names may be added with it shared.
	parent *node
	name   string
	more   *[]place

	// lookups counts what the kernel has to forget. Protected by table.mu.
	lookups uint64

	dir  *directory             // immutable: nil unless it is a directory
	open atomic.Pointer[opened] // changed with mu held; nil while nobody has it open

	// mu protects what follows and the opened behind open.
	mu   sync.Mutex
	told told
}

// A place is a name in a directory.
type place struct {
	parent *node
	name   string
}

// A nodeState says what a node's names are worth.
type nodeState uint8

const (
	// linked: the names are the file's.
	linked nodeState = iota
	// unlinked: the file has no name left that we know.
	unlinked
	// stale: the name now means another file.
	stale
)

// A directory is what a node keeps as a directory.
type directory struct {
	// children holds the nodes by name. Protected by table.mu.
	children map[string]*node
	// path is the directory's path as of a generation of the table.
	path atomic.Pointer[pathAt]
	// watch is how the directory is watched; see events.
	watch watch
	// listing is what readers in the middle of the directory go on with, nil if
	// it has to be read again. fading is set while fade is going to happen.
	listing atomic.Pointer[listing]
	fading  atomic.Bool
}

// A pathAt is a directory's path, valid while table.gen is gen.
type pathAt struct {
	path overlay.Name
	gen  uint64
}

// told is what the kernel was told of a file last. Times are nanoseconds since
// 1970, saturated.
type told struct {
	version uint64 // of a Store file
	size    int64
	blocks  int64
	atime   int64
	mtime   int64
	ctime   int64
	mode    uint32 // permission bits
	nlink   uint32
	uid     uint32
	gid     uint32
	rdev    uint32
	source  overlay.Source

	// plain: the file is known to have nothing that ClearPrivileges clears;
	// bare: it is known to have no access ACL. suspected counts the times that
	// both were forgotten.
	plain, bare bool
	suspected   uint32
	// kept: the kernel was told to keep the attributes for long.
	kept bool
	// valid: the fields were filled in at all.
	valid bool
}

// remember notes that the kernel is told a. The caller holds n.mu.
func (n *node) remember(a *overlay.Attr) {
	n.told.version = a.Version
	n.told.size = a.Size
	n.told.blocks = a.Blocks
	n.told.atime = nanos(a.Atime)
	n.told.mtime = nanos(a.Mtime)
	n.told.ctime = nanos(a.Ctime)
	if n.told.mode != a.Mode&overlay.ModeMask {
		n.told.mode = a.Mode & overlay.ModeMask
		n.told.plain = false
	}
	if n.told.source != a.Source {
		n.told.bare = false
		n.told.suspected++
	}
	n.told.nlink = a.Nlink
	n.told.uid, n.told.gid = a.UID, a.GID
	n.told.rdev = uint32(a.Rdev)
	n.told.source = a.Source
	n.told.valid = true
}

// same reports whether a is what the kernel was told, as far as the content
// can tell. The caller holds n.mu.
func (n *node) same(a *overlay.Attr) bool {
	return n.told.valid && n.told.source == a.Source && n.told.version == a.Version &&
		n.told.size == a.Size && n.told.mtime == nanos(a.Mtime) && n.told.ctime == nanos(a.Ctime)
}

// attr returns what the kernel was told last. The caller holds n.mu.
func (n *node) attr() overlay.Attr {
	return overlay.Attr{
		Ino: n.ino, Mode: n.typ | n.told.mode, Nlink: n.told.nlink,
		UID: n.told.uid, GID: n.told.gid, Rdev: uint64(n.told.rdev),
		Size: n.told.size, Blocks: n.told.blocks,
		Atime: time.Unix(0, n.told.atime), Mtime: time.Unix(0, n.told.mtime), Ctime: time.Unix(0, n.told.ctime),
		Source: n.told.source, Version: n.told.version,
	}
}

// source returns who else may change the file, as far as we know.
func (n *node) source() overlay.Source {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told.source
}

// nanos returns t in nanoseconds since 1970, saturated.
func nanos(t time.Time) int64 {
	const limit = math.MaxInt64/1_000_000_000 - 1 // seconds that fit
	switch s := t.Unix(); {
	case s > limit:
		return limit * 1_000_000_000
	case s < -limit:
		return -limit * 1_000_000_000
	}
	return t.UnixNano()
}
