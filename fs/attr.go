//go:build linux

package fs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// fill writes a into out.
func fill(out *fuse.Attr, a *overlay.Attr) {
	*out = fuse.Attr{
		Ino:       a.Ino,
		Size:      uint64(a.Size),
		Blocks:    uint64(a.Blocks),
		Atime:     uint64(a.Atime.Unix()),
		Mtime:     uint64(a.Mtime.Unix()),
		Ctime:     uint64(a.Ctime.Unix()),
		Atimensec: uint32(a.Atime.Nanosecond()),
		Mtimensec: uint32(a.Mtime.Nanosecond()),
		Ctimensec: uint32(a.Ctime.Nanosecond()),
		Mode:      a.Mode,
		Nlink:     a.Nlink,
		Owner:     fuse.Owner{Uid: a.UID, Gid: a.GID},
		Rdev:      uint32(a.Rdev),
		Blksize:   blockSize,
	}
}

// tell remembers that the kernel is told a of n, and returns for how long it
// may believe the attributes. sure says whether a change of n by others since a
// was taken would be noticed.
func (f *FS) tell(n *node, a *overlay.Attr, sure bool) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remember(a)
	valid := n.attrTime(a, sure)
	n.told.kept = valid > 0
	return valid
}

// attrTime returns for how long the kernel may believe a.
//
// Preconditions: n.mu is held.
func (n *node) attrTime(a *overlay.Attr, sure bool) time.Duration {
	if o := n.open.Load(); o != nil && o.mappable() {
		return 0
	}
	return cacheTime(a, sure)
}

// cacheTime returns for how long the kernel may keep what a says, not counting
// that it may be written to. sure is whether a change by others is noticed.
func cacheTime(a *overlay.Attr, sure bool) time.Duration {
	switch {
	case a.Source == overlay.Exclusive:
		return Unlimited
	case !sure:
		return Unwatched
	case a.Source == overlay.Host && a.Nlink > 1 && !a.IsDir():
		return Unwatched // a watch sees changes by the names in its directory
	}
	return Unlimited
}

// watched reports whether changes of n by others are noticed: n's directory is
// watched or, if n is one, n itself is.
func (f *FS) watched(n *node) bool {
	if n.dir != nil {
		return n.dir.watch.active()
	}
	f.table.mu.RLock()
	parent := n.parent
	f.table.mu.RUnlock()
	return parent != nil && parent.dir.watch.active()
}

// entry fills out for n, found at a name of directory d, which was watched
// since seen at least.
func (f *FS) entry(out *fuse.EntryOut, d, n *node, a *overlay.Attr, seen sighting) {
	sure := seen.undisturbed(d)
	attrSure := sure
	if n.dir != nil {
		attrSure = n.dir.watch.active()
	}
	out.NodeId = n.id
	out.Generation = 1
	fill(&out.Attr, a)
	out.SetAttrTimeout(f.tell(n, a, attrSure))
	out.SetEntryTimeout(entryTime(a, sure, seen))
}

// entryTime returns for how long the kernel may believe that a name means the
// file of a.
func entryTime(a *overlay.Attr, sure bool, seen sighting) time.Duration {
	switch {
	case a.Source == overlay.Exclusive:
		return Unlimited
	case sure:
		return Unlimited
	case seen.disturbed:
		return 0
	}
	return Unwatched
}

// GetAttr answers stat.
func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := f.table.get(in.NodeId)
	if n == nil {
		return estale
	}
	a, sure, st := f.stat(request(cancel), n)
	if !st.Ok() {
		return st
	}
	fill(&out.Attr, &a)
	out.SetTimeout(f.tell(n, &a, sure))
	return fuse.OK
}

// stat returns the attributes of n: those of its open file, of the file at its
// path, or, if it was removed, what is remembered.
func (f *FS) stat(ctx request, n *node) (a overlay.Attr, sure bool, st fuse.Status) {
	if fl := n.borrow(); fl != nil {
		defer fl.put()
		a, err := fl.Stat(ctx)
		if err != nil {
			return a, false, f.status("fstat", err)
		}
		a.Ino = n.ino
		if fl.w == nil && a.Nlink > 0 && f.table.state(n) == unlinked {
			a.Nlink-- // a lower layer's file, which has not lost a name there
		}
		return n.kept(a), f.watched(n), fuse.OK
	}
	path, h, st := f.byNode(n)
	if st == fuse.ENOENT {
		return n.last(), true, fuse.OK
	}
	if !st.Ok() {
		return f.statReplaced(ctx, n)
	}
	defer h.unlock()
	sure = f.watched(n)
	a, err := f.layer.Lstat(ctx, path)
	if err != nil {
		if st := f.status("lstat", err); !isNotExist(st) {
			return a, false, st
		}
		return f.statReplaced(ctx, n)
	}
	if n.id == rootID {
		a.Ino = n.ino
	}
	if !n.is(&a) {
		return f.statReplaced(ctx, n)
	}
	return a, sure, fuse.OK
}

// statReplaced is stat for a node whose name means another file: of the file
// that is held of it, if there is one.
func (f *FS) statReplaced(ctx request, n *node) (a overlay.Attr, sure bool, st fuse.Status) {
	g, ok := f.gripped(n)
	if !ok || g.file == nil {
		return a, false, f.removed(n, estale)
	}
	defer g.file.put()
	a, err := g.file.Stat(ctx)
	a.Ino = n.ino
	return a, false, f.status("fstat", err)
}

// last returns what the kernel was told of n last, for a file that was removed
// and that nobody has open.
func (n *node) last() overlay.Attr {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.attr()
	a.Nlink = 0
	a.Source = overlay.Exclusive
	return a
}

// initRoot fills in the root's node.
func (f *FS) initRoot() error {
	root := f.table.root
	a, err := f.layer.Lstat(request(nil), overlay.Root)
	if err != nil {
		return err
	}
	root.ino = a.Ino
	root.seg = f.segment(overlay.Root)
	root.mu.Lock()
	root.remember(&a)
	root.mu.Unlock()
	return nil
}

// isNotExist reports whether st says that there is no such name.
func isNotExist(st fuse.Status) bool {
	return st == fuse.ENOENT || st == fuse.Status(syscall.ENOTDIR)
}
