//go:build linux

package fs

import (
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// smallFile bounds the files of others that are opened lazily.
const smallFile = 128 << 10

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
	h := &handle{n: n, write: write}
	n.enter(write)
	st := f.open(ctx, h, in, out)
	if st = staleIfGone(st); st == estale && f.regrip(n) {
		st = f.open(ctx, h, in, out)
	}
	if !st.Ok() {
		f.leave(n, write)
		return f.removed(n, st)
	}
	out.Fh = f.files.add(h)
	return fuse.OK
}

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
	case o.file != nil && (o.file.w != nil || state == unlinked):
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
// with what the kernel was told. A large one is opened at once: a reader that
// opened it before somebody replaced it goes on reading the old one. A small
// one that is as the kernel was told is opened by the first READ.
func (f *FS) openShared(ctx request, n *node, out *fuse.OpenOut) fuse.Status {
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	changed := false
	if n.small() {
		a, err := f.layer.Lstat(ctx, path)
		if err != nil {
			return f.status("lstat", err)
		}
		if !n.is(&a) {
			return estale
		}
		if f.revalidate(n, &a) {
			n.mu.Lock()
			defer n.mu.Unlock()
			f.decide(n, out, false)
			return fuse.OK
		}
		changed = true
	}
	fl, a, st := f.openFile(ctx, path)
	if !st.Ok() {
		return st
	}
	if !n.is(&a) {
		fl.put()
		return estale
	}
	keep := f.revalidate(n, &a) && !changed
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

// small reports whether n, which others may change, is opened lazily: it is
// read with one request, and mostly not at all, since the kernel has it.
func (n *node) small() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told.size <= smallFile
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
	if !keep {
		n.remember(a)
		n.told.kept = false
	}
	n.mu.Unlock()
	if k := f.notify(); !keep && k != nil {
		k.InodeNotify(n.id, -1, 0)
	}
	return keep
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

// openWrite opens h for writing, which copies a lower file up.
func (f *FS) openWrite(ctx request, h *handle, flags uint32, kill bool, out *fuse.OpenOut) fuse.Status {
	n := h.n
	if st, done := f.reopen(ctx, n, flags, kill, out); done {
		return st
	}
	source := n.source()
	if source != overlay.Exclusive && flags&unix.O_TRUNC == 0 {
		f.prepare(ctx, n)
	}
	flag := openFlags(flags)
	if source == overlay.Exclusive {
		flag &^= overlay.Append // the kernel's idea of the end is right
	}
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	w, err := f.layer.OpenFile(ctx, path, flag, overlay.Perm{})
	if err != nil {
		return f.status("open", err)
	}
	fl := f.newFile(w, w)
	drop, st := f.arrive(ctx, n, fl, source, kill)
	if !st.Ok() {
		fl.put()
		return st
	}
	if n.source() == overlay.Store {
		if source != overlay.Store {
			f.refresh(ctx, n, path) // it was copied from a template
		}
		f.openOwn(h, fl, out, drop)
		return fuse.OK
	}
	if flag&(overlay.Append|overlay.Direct|overlay.SyncData) != 0 {
		// What all handles share must be none of these; the layer has done
		// what it does for such an open.
		fl.put()
		if w, err = f.layer.OpenFile(ctx, path, 0, overlay.Perm{}); err != nil {
			return f.status("open", err)
		}
		fl = f.newFile(w, w)
	}
	n.install(fl).put()
	f.openLive(n, out, drop)
	return fuse.OK
}

// openFlags returns what a layer is told of open(2)'s flags.
func openFlags(flags uint32) (flag overlay.OpenFlag) {
	for _, m := range [...]struct {
		bits uint32
		flag overlay.OpenFlag
	}{
		{unix.O_TRUNC, overlay.Truncate},
		{unix.O_APPEND, overlay.Append},
		{unix.O_DSYNC, overlay.SyncData},
		{unix.O_DIRECT, overlay.Direct},
		{unix.O_EXCL, overlay.Excl},
	} {
		if flags&m.bits != 0 {
			flag |= m.flag
		}
	}
	return flag
}

// reopen opens a file for writing that is open for writing already, if the
// layer need not be asked again. done is false otherwise.
func (f *FS) reopen(ctx request, n *node, flags uint32, kill bool, out *fuse.OpenOut) (st fuse.Status, done bool) {
	n.mu.Lock()
	o := n.open.Load()
	fl := o.file
	if fl == nil || fl.w == nil || flags&(unix.O_DSYNC|unix.O_DIRECT) != 0 {
		n.mu.Unlock()
		return fuse.OK, false
	}
	fl.refs.Add(1)
	n.mu.Unlock()
	defer fl.put()
	set := overlay.SetAttr{}
	if kill {
		set.Valid |= overlay.ClearPrivileges
	}
	if flags&unix.O_TRUNC != 0 {
		set.Valid |= overlay.SetSize
	}
	if set.Valid != 0 {
		if _, err := fl.w.SetAttr(ctx, set); err != nil {
			return f.status("truncate", err), true
		}
	}
	f.openLive(n, out, false)
	return fuse.OK, true
}

// arrive deals with fl having been opened for writing, from a file of the
// given source: what the kernel was told may no longer hold.
func (f *FS) arrive(ctx request, n *node, fl *file, source overlay.Source, kill bool) (drop bool, st fuse.Status) {
	if kill {
		if _, err := fl.w.SetAttr(ctx, overlay.SetAttr{Valid: overlay.ClearPrivileges}); err != nil {
			return false, f.status("setattr", err)
		}
	}
	if source == overlay.Exclusive {
		return false, fuse.OK
	}
	a, err := fl.Stat(ctx)
	if err != nil {
		return false, f.status("fstat", err)
	}
	if !n.is(&a) {
		return false, estale
	}
	n.mu.Lock()
	// A copy-up keeps size and mtime, and changes ctime.
	drop = n.told.size != a.Size || n.told.mtime != nanos(a.Mtime) || n.told.version != a.Version
	n.remember(&a)
	n.told.kept = false
	n.mu.Unlock()
	if k := f.notify(); k != nil {
		k.InodeNotify(n.id, -1, 0)
	}
	return drop, fuse.OK
}

// openOwn makes fl the handle's own file: a store file that is written to.
func (f *FS) openOwn(h *handle, fl *file, out *fuse.OpenOut, drop bool) {
	h.own = fl
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	o.own = append(o.own, h)
	f.decide(n, out, drop)
	out.OpenFlags &^= fuse.FOPEN_NOFLUSH // FLUSH commits
}

// openLive settles the mode of a handle that writes to the shared file.
func (f *FS) openLive(n *node, out *fuse.OpenOut, drop bool) {
	n.mu.Lock()
	f.decide(n, out, drop)
	expire := n.open.Load().live() && n.told.kept
	if expire {
		n.told.kept = false
	}
	n.mu.Unlock()
	// From now on the file changes without our doing, also through mappings,
	// which change no attribute in the kernel.
	if k := f.notify(); expire && k != nil {
		k.InodeNotify(n.id, -1, 0)
	}
}

// prepare copies n's file up ahead of a change, while no lock is held. What it
// cannot do the change itself will do, or report.
func (f *FS) prepare(ctx request, n *node) {
	if f.can.copyUp == nil {
		return
	}
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return
	}
	held.unlock()
	if err := f.can.copyUp.CopyUp(ctx, path); err != nil {
		f.log.Debug("fs: copy-up ahead of a change", "path", path, "err", err)
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
	if h.dir != nil {
		return
	}
	if h.own != nil {
		h.n.mu.Lock()
		o := h.n.open.Load()
		if i := slices.Index(o.own, h); i >= 0 {
			o.own = slices.Delete(o.own, i, i+1)
		}
		h.n.mu.Unlock()
		h.own.put()
	}
	f.leave(h.n, h.write)
}

// secure opens what is needed of n's file for its handles to go on working when
// its last name goes: opens are lazy, and a reader may change attributes. The
// caller holds the segment exclusively and path is n's.
func (f *FS) secure(ctx request, n *node, path overlay.Name) fuse.Status {
	if n == nil || n.typ != overlay.TypeReg || n.open.Load() == nil {
		return fuse.OK
	}
	n.mu.Lock()
	o := n.open.Load()
	done := o == nil || (o.file != nil && o.file.w != nil) || (o.file == nil && len(o.own) == o.handles)
	n.mu.Unlock()
	if done {
		return fuse.OK
	}
	if n.source() == overlay.Exclusive && f.inUpper(ctx, path) {
		w, err := f.layer.OpenFile(ctx, path, 0, overlay.Perm{})
		if err != nil {
			return f.status("open", err)
		}
		n.replace(f.newFile(w, w))
		return fuse.OK
	}
	hd, err := f.layer.Open(ctx, path)
	if err != nil {
		return f.status("open", err)
	}
	n.replaceIfNone(f.newFile(hd, nil))
	return fuse.OK
}

// replaceIfNone makes fl the file that n's handles read, if they have none.
func (n *node) replaceIfNone(fl *file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o := n.open.Load(); o != nil && o.file == nil {
		o.file = fl
		return
	}
	fl.put()
}

// inUpper reports whether the file at path is in the upper layer: opening it
// for writing copies nothing. A layer that copies nothing up is all upper.
func (f *FS) inUpper(ctx request, path overlay.Name) bool {
	if f.can.place == nil {
		return f.can.copyUp == nil
	}
	upper, err := f.can.place.InUpper(ctx, path)
	return err == nil && upper
}

// refresh has n's readers read the file that is at path now, after a change by
// path may have copied it up. The caller holds the segment's lock.
func (f *FS) refresh(ctx request, n *node, path overlay.Name) {
	if n.open.Load() == nil {
		return
	}
	n.mu.Lock()
	o := n.open.Load()
	readers := o != nil && o.file != nil && o.file.w == nil
	n.mu.Unlock()
	if !readers {
		return
	}
	hd, err := f.layer.Open(ctx, path)
	if err != nil {
		f.log.Error("fs: readers stay with the file as it was before its copy-up", "path", path, "err", err)
		return
	}
	n.replace(f.newFile(hd, nil))
}

// errnoOK is what the kernel's interfaces return for success.
const errnoOK = syscall.Errno(0)
