//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// perm returns what a new file starts with.
func perm(in *fuse.InHeader, mode, umask uint32) overlay.Perm {
	return overlay.Perm{Mode: mode & overlay.ModeMask, Umask: umask, UID: in.Uid, GID: in.Gid}
}

// make makes a file at name in a directory with fn and answers with it.
func (f *FS) make(ctx request, in *fuse.InHeader, name string, out *fuse.EntryOut, op string, fn func(overlay.Name) error) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	d := f.table.get(in.NodeId)
	if d == nil {
		return estale
	}
	path, seg, h, st := f.byName(d, name, false)
	if !st.Ok() {
		return st
	}
	defer h.unlock()
	if err := fn(path); err != nil {
		return f.status(op, err)
	}
	seen := d.sight()
	a, err := f.layer.Lstat(ctx, path)
	if err != nil {
		return f.status("lstat", err)
	}
	return f.found(d, name, &a, seg, out, seen)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	ctx := request(cancel)
	return f.make(ctx, &in.InHeader, name, out, "mkdir", func(path overlay.Name) error {
		return f.layer.Mkdir(ctx, path, perm(&in.InHeader, in.Mode, in.Umask))
	})
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(cancel <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	ctx := request(cancel)
	return f.make(ctx, in, name, out, "symlink", func(path overlay.Name) error {
		return f.layer.Symlink(ctx, target, path, perm(in, 0o777, 0))
	})
}

// Mknod makes a FIFO, socket, device node or empty file.
func (f *FS) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	ctx := request(cancel)
	p := perm(&in.InHeader, in.Mode, in.Umask)
	return f.make(ctx, &in.InHeader, name, out, "mknod", func(path overlay.Name) error {
		typ := in.Mode & overlay.TypeMask
		if typ == overlay.TypeReg || typ == 0 {
			w, err := f.layer.OpenFile(ctx, path, overlay.Create|overlay.Excl, p)
			if err != nil {
				return err
			}
			return w.Close()
		}
		if f.can.node == nil {
			return overlay.PathError("mknod", path, unix.EPERM)
		}
		return f.can.node.Mknod(ctx, path, typ, uint64(in.Rdev), p)
	})
}

// Create makes a regular file and opens it.
func (f *FS) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	d := f.table.get(in.NodeId)
	if d == nil {
		return estale
	}
	ctx := request(cancel)
	path, seg, held, st := f.byName(d, name, false)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	flag := openFlags(in.Flags) | overlay.Create
	if f.onDisk(path) {
		flag &^= overlay.Append // the kernel's idea of the end is right
	}
	w, err := f.layer.OpenFile(ctx, path, flag, perm(&in.InHeader, in.Mode, in.Umask))
	if err != nil {
		return f.status("create", err)
	}
	fl := f.newFile(w, w)
	if in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0 && flag&overlay.Excl == 0 {
		if _, err := w.SetAttr(ctx, overlay.SetAttr{Valid: overlay.ClearPrivileges}); err != nil {
			fl.put()
			return f.status("setattr", err)
		}
	}
	seen := d.sight()
	a, err := w.Stat(ctx)
	if err != nil {
		fl.put()
		return f.status("fstat", err)
	}
	n := f.table.find(d, name, &a, seg)
	if n == nil {
		fl.put()
		return fuse.ENOENT
	}
	h := &handle{n: n, write: true, maps: maps(in.Flags)}
	if st := f.created(ctx, h, fl, path, &a, flag, &out.OpenOut); !st.Ok() {
		f.table.forget(n.id, 1)
		return st
	}
	f.entry(&out.EntryOut, d, n, &a, seen)
	return fuse.OK
}

// created opens h on fl, which was just made at path with the attributes a. It
// takes over the caller's reference of fl.
func (f *FS) created(ctx request, h *handle, fl *file, path overlay.Name, a *overlay.Attr, flag overlay.OpenFlag, out *fuse.OpenOut) fuse.Status {
	if a.Source != overlay.Store && flag&(overlay.Append|overlay.Direct|overlay.SyncData) != 0 && path != "" {
		fl.put()
		w, err := f.layer.OpenFile(ctx, path, 0, overlay.Perm{})
		if err != nil {
			return f.status("open", err)
		}
		fl = f.newFile(w, w)
	}
	n := h.n
	n.enter(h.maps)
	n.mu.Lock()
	unknown := !n.told.valid
	n.remember(a)
	// A file that is new, or was cut, has no security.capability, and nobody
	// can have given it one before the kernel knew it.
	n.told.plain = unknown && flag&(overlay.Excl|overlay.Truncate) != 0 && n.told.mode&privileged == 0
	n.mu.Unlock()
	if a.Source == overlay.Store {
		f.openOwn(h, fl, out, false)
	} else {
		n.install(fl).put()
		f.openLive(n, out, false)
	}
	out.Fh = f.files.add(h)
	return fuse.OK
}

// Tmpfile makes a regular file without a name and opens it.
func (f *FS) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	if f.can.tmpfile == nil {
		return eopnotsupp
	}
	d := f.table.get(in.NodeId)
	if d == nil {
		return estale
	}
	ctx := request(cancel)
	path, held, st := f.byNode(d)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	w, err := f.can.tmpfile.Tmpfile(ctx, path, perm(&in.InHeader, in.Mode, in.Umask))
	if err != nil {
		return f.status("tmpfile", err)
	}
	fl := f.newFile(w, w)
	a, err := w.Stat(ctx)
	if err != nil {
		fl.put()
		return f.status("fstat", err)
	}
	n := f.table.anonymous(&a, d.seg)
	h := &handle{n: n, write: true, maps: maps(in.Flags)}
	if st := f.created(ctx, h, fl, "", &a, overlay.Excl, &out.OpenOut); !st.Ok() {
		f.table.forget(n.id, 1)
		return st
	}
	f.entry(&out.EntryOut, d, n, &a, sighting{})
	return fuse.OK
}

// Link gives a file one more name.
func (f *FS) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	d, n := f.table.get(in.NodeId), f.table.get(in.Oldnodeid)
	if d == nil || n == nil {
		return estale
	}
	ctx := request(cancel)
	lower := n.source() != overlay.Exclusive
	if lower {
		f.prepare(ctx, n)
	}
	path, seg, held, st := f.byName(d, name, false)
	if !st.Ok() {
		return st
	}
	defer held.unlock()
	if seg != n.seg {
		return fuse.EXDEV
	}
	if st := f.link(ctx, n, path, lower); !st.Ok() {
		return st
	}
	seen := d.sight()
	a, err := f.layer.Lstat(ctx, path)
	if err != nil {
		return f.status("lstat", err)
	}
	if !n.is(&a) {
		return estale
	}
	f.table.link(n, place{d, name})
	return f.found(d, name, &a, seg, out, seen)
}

// link makes path another name of n's file, or the first one. With lower, n was
// prepared: the copy may be another file by its number. The kernel has to look
// that up before it gets the name, since it repeats a call that gave ESTALE.
func (f *FS) link(ctx request, n *node, path overlay.Name, lower bool) fuse.Status {
	old, state := f.table.path(n)
	switch {
	case state == stale:
		return estale
	case state == unlinked:
		return f.linkHandle(ctx, n, path)
	case f.can.link == nil:
		return fuse.EPERM
	}
	if lower {
		a, err := f.layer.Lstat(ctx, old)
		if err != nil {
			return staleIfGone(f.status("lstat", err))
		}
		if !n.is(&a) {
			return estale
		}
	}
	if err := f.can.link.Link(ctx, old, path); err != nil {
		return f.status("link", err)
	}
	f.refresh(ctx, n, old)
	return fuse.OK
}

// linkHandle gives a file made by Tmpfile its name.
func (f *FS) linkHandle(ctx request, n *node, path overlay.Name) fuse.Status {
	fl := n.borrow()
	if fl == nil {
		return fuse.ENOENT
	}
	defer fl.put()
	if fl.w == nil || f.can.tmpfile == nil {
		return fuse.ENOENT
	}
	return f.status("link", f.can.tmpfile.LinkHandle(ctx, fl.w, path))
}

// link gives n the further name p.
func (t *table) link(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := p.parent.dir.children[p.name]; old == n {
		return
	} else if old != nil {
		t.detach(old, p, stale)
	}
	if p.parent.state == linked {
		t.attach(n, p)
	}
}

// Readlink returns a symbolic link's target.
func (f *FS) Readlink(cancel <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	n := f.table.get(in.NodeId)
	if n == nil {
		return nil, estale
	}
	path, h, st := f.byNode(n)
	if !st.Ok() {
		if g, ok := f.gripped(n); ok && g.target != "" {
			return []byte(g.target), fuse.OK
		}
		return nil, f.removed(n, st)
	}
	defer h.unlock()
	target, err := f.layer.Readlink(request(cancel), path)
	return []byte(target), f.status("readlink", err)
}
