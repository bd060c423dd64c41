//go:build linux

package fs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// privileged are the mode bits that keep a file from being passed through: a
// passthrough write clears them, also where the writer may keep them.
const privileged = overlay.ModeSetUID | overlay.ModeSetGID

// bigFile is the size from which a file that is only read is passed through.
// Registering a backing file costs about as much as reading this much through
// the daemon once; smaller files are opened lazily and stay in the page cache.
const bigFile = 256 << 10

// Open opens a regular file.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.table.get(in.NodeId)
	switch {
	case n == nil:
		return estale
	case n.dir != nil:
		return fuse.EISDIR
	case n.typ != overlay.TypeReg:
		return enxio
	}
	write := in.Flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY
	if write && f.opt.ReadOnly {
		return fuse.EROFS
	}
	ctx := request(cancel)
	h := &handle{n: n, write: write, maps: maps(in.Flags)}
	n.enter(h.maps)
	st := f.open(ctx, h, in, out)
	if st = staleIfGone(st); st == estale && f.regrip(n) {
		st = f.open(ctx, h, in, out)
	}
	if !st.Ok() {
		f.leave(n, h.maps)
		return f.removed(n, st)
	}
	out.Fh = f.files.add(h)
	return fuse.OK
}

// maps reports whether a handle with open(2)'s flags can be mapped and written
// to.
func maps(flags uint32) bool { return flags&unix.O_ACCMODE == unix.O_RDWR }

// open opens h.
func (f *FS) open(ctx request, h *handle, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if h.write {
		return f.openWrite(ctx, h, in.Flags, in.Mode&fuse.OPEN_KILL_SUIDGID != 0, out)
	}
	return f.openRead(ctx, h, out)
}

// openRead opens h for reading.
func (f *FS) openRead(ctx request, h *handle, out *fuse.OpenOut) fuse.Status {
	n := h.n
	if st, done := f.openLazy(n, out); done {
		return st
	}
	if n.source() == overlay.Exclusive {
		return f.openBig(ctx, h, out)
	}
	return f.openShared(ctx, n, out)
}

// openLazy opens a file for reading without the layer's doing: one that is open
// already, or a small one that only this mount changes, which the first READ
// opens. done is false if it cannot.
func (f *FS) openLazy(n *node, out *fuse.OpenOut) (st fuse.Status, done bool) {
	// Whoever takes the last name away opens the file first (secure), so
	// there must be a name while we decide not to.
	held, state := f.hold(n)
	defer held.unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	switch {
	case o.file != nil && (o.file.w != nil || state != linked):
	case state != linked:
		return estale, true
	case n.told.source != overlay.Exclusive:
		return fuse.OK, false
	case o.mode == undecided && n.told.size >= bigFile:
		return fuse.OK, false
	}
	f.decide(n, out, false)
	return fuse.OK, true
}

// openBig opens a large file that only this mount changes for reading: passed
// through if it is in the upper layer.
func (f *FS) openBig(ctx request, h *handle, out *fuse.OpenOut) fuse.Status {
	n := h.n
	// A name taken away from now on finds the file open or opens it.
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	if f.passes() && f.inUpper(ctx, path) {
		w, err := f.layer.OpenFile(ctx, path, 0, overlay.Perm{})
		if err != nil {
			return f.status("open", err)
		}
		n.install(f.newFile(w, w)).put()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.decide(n, out, false)
	return fuse.OK
}

// openShared opens a file that others may change for reading, and compares it
// with what the kernel was told. It is opened at once, not by the first READ:
// what is read has to be the file whose size the kernel has, also when somebody
// replaces it meanwhile.
func (f *FS) openShared(ctx request, n *node, out *fuse.OpenOut) fuse.Status {
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	fl, a, st := f.openFile(ctx, path)
	if !st.Ok() {
		return st
	}
	if !n.is(&a) {
		fl.put()
		f.table.replaced(n)
		return estale
	}
	keep := f.revalidate(n, &a)
	if keep {
		n.install(fl).put()
	} else {
		n.replace(fl)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.decide(n, out, !keep)
	return fuse.OK
}

// openFile opens the file at path for reading and returns its attributes.
func (f *FS) openFile(ctx request, path overlay.Name) (*file, overlay.Attr, fuse.Status) {
	hd, err := f.layer.Open(ctx, path)
	if err != nil {
		return nil, overlay.Attr{}, f.status("open", err)
	}
	a, err := hd.Stat(ctx)
	if err != nil {
		f.newFile(hd, nil).put()
		return nil, a, f.status("fstat", err)
	}
	return f.newFile(hd, nil), a, fuse.OK
}

// staleIfGone turns the answer that a node's path does not exist into the one
// that makes the kernel look the path up again.
func staleIfGone(st fuse.Status) fuse.Status {
	if isNotExist(st) || st == fuse.EISDIR {
		return estale
	}
	return st
}

// revalidate compares a, the attributes of n's file now, with what the kernel
// was told, and has it ask again if they differ. It reports whether the kernel
// may keep its pages.
func (f *FS) revalidate(n *node, a *overlay.Attr) (keep bool) {
	n.mu.Lock()
	keep = n.same(a)
	n.mu.Unlock()
	if keep {
		return true
	}
	// First the kernel, so that an open at the same time that finds nothing
	// changed has it ask again, too.
	if k := f.notify(); k != nil {
		k.InodeNotify(n.id, -1, 0)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remember(a)
	n.told.kept = false
	return false
}

// decide settles n's mode for one more handle and fills out. drop has the
// kernel drop its pages.
//
// Preconditions: n.mu is held; the handle is counted in n's opened.
func (f *FS) decide(n *node, out *fuse.OpenOut, drop bool) {
	o := n.open.Load()
	if o.mode == undecided {
		o.mode = cached
		if o.file != nil && o.file.w != nil && len(o.own) == 0 && f.passes() && n.told.mode&privileged == 0 {
			if id, ok := f.register(o.file); ok {
				o.mode, o.backing = passthrough, id
			}
		}
	}
	out.OpenFlags = fuse.FOPEN_NOFLUSH
	switch {
	case o.mode == passthrough:
		// The kernel takes no other flag beside these two.
		out.OpenFlags |= fuse.FOPEN_PASSTHROUGH
		out.BackingID = o.backing
	case !drop:
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
}

// Release ends a handle.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h := f.files.take(in.Fh); h != nil {
		f.drop(h)
	}
}

// drop ends h, which is in no table any more.
func (f *FS) drop(h *handle) {
	if h.own != nil {
		h.n.mu.Lock()
		o := h.n.open.Load()
		if i := slices.Index(o.own, h); i >= 0 {
			o.own = slices.Delete(o.own, i, i+1)
		}
		h.n.mu.Unlock()
		h.own.put()
	}
	f.leave(h.n, h.maps)
}
