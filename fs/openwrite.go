//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

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
	path, held, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	flag := openFlags(flags)
	if source == overlay.Exclusive || f.onDisk(path) {
		flag &^= overlay.Append // once it is open, the kernel's idea of the end is right
	}
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

// onDisk reports whether a file at path that is written to is on disk, in no
// store, wherever it was read from before.
func (f *FS) onDisk(path overlay.Name) bool {
	if f.can.segment != nil && f.can.segment.Segment(path) != 0 {
		return false
	}
	return f.table.root.source() != overlay.Store
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
	expire := n.open.Load().mappable() && n.told.kept
	if expire {
		n.told.kept = false
	}
	n.mu.Unlock()
	// From now on the file may change through mappings, which change no
	// attribute in the kernel.
	if k := f.notify(); expire && k != nil {
		k.InodeNotify(n.id, -1, 0)
	}
}
