//go:build linux

package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// SetAttr answers chmod, chown, truncate and utimens.
func (f *FS) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	n := f.table.get(in.NodeId)
	if n == nil {
		return estale
	}
	ctx, set := request(cancel), changes(in)
	if set.Valid == 0 && f.forfeits(ctx, n, in) {
		set.Valid = overlay.ClearPrivileges
	}
	if set.Valid == 0 {
		return f.GetAttr(cancel, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
	}
	a, st := f.setAttr(ctx, n, in, set)
	if !st.Ok() {
		return st
	}
	if set.Valid&(overlay.SetMode|overlay.SetUID|overlay.SetGID) != 0 {
		n.suspect()
	}
	fill(&out.Attr, &a)
	out.SetTimeout(f.tell(n, &a, f.watched(n)))
	return fuse.OK
}

// forfeits reports whether a SETATTR that names nothing takes privileges from
// n. It is a chown to neither owner nor group, which clears set-user-id like any
// other; or the kernel announces a write, which clears it anyway. It does not
// say which, so only those who may chown are heeded.
func (f *FS) forfeits(ctx request, n *node, in *fuse.SetAttrIn) bool {
	if n.typ != overlay.TypeReg {
		return false
	}
	a, _, st := f.stat(ctx, n)
	const group = overlay.ModeSetGID | unix.S_IXGRP
	privileged := a.Mode&overlay.ModeSetUID != 0 || a.Mode&group == group
	return st.Ok() && privileged && (in.Uid == 0 || in.Uid == a.UID)
}

// setAttr changes n: through an open file that can be written, by path, or, if
// n was removed and is only read, in memory.
func (f *FS) setAttr(ctx request, n *node, in *fuse.SetAttrIn, set overlay.SetAttr) (overlay.Attr, fuse.Status) {
	if fl := f.changer(n, in); fl != nil {
		defer fl.put()
		a, err := fl.w.SetAttr(ctx, set)
		a.Ino = n.ino
		return a, f.status("setattr", err)
	}
	empties := set.Valid&overlay.SetSize != 0 && set.Size == 0
	if n.typ == overlay.TypeReg && n.source() != overlay.Exclusive && !empties {
		f.prepare(ctx, n)
	}
	path, h, st := f.byNode(n)
	if st == fuse.ENOENT {
		return f.setRemoved(ctx, n, set)
	}
	if !st.Ok() {
		return overlay.Attr{}, st
	}
	defer h.unlock()
	a, err := f.layer.SetAttr(ctx, path, set)
	if err != nil {
		return a, staleIfGone(f.status("setattr", err))
	}
	if n.id == rootID {
		a.Ino = n.ino
	}
	if !n.is(&a) {
		return a, estale
	}
	f.refresh(ctx, n, path)
	return a, fuse.OK
}

// changer returns the open file that a SETATTR goes to, with a reference: the
// one of the handle it names, or any that can be written. nil if there is none.
func (f *FS) changer(n *node, in *fuse.SetAttrIn) *file {
	if fh, ok := in.GetFh(); ok {
		if h := f.files.get(fh); h != nil && h.n == n {
			if fl, st := f.writable(h); st.Ok() {
				return fl
			}
		}
	}
	fl := n.borrow()
	if fl != nil && fl.w == nil {
		fl.put()
		return nil
	}
	return fl
}

// setRemoved changes an unlinked file that nobody can write to. Only those who
// have it open see it, so the change is kept with the node.
func (f *FS) setRemoved(ctx request, n *node, set overlay.SetAttr) (a overlay.Attr, st fuse.Status) {
	if set.Valid&overlay.SetSize != 0 {
		return a, estale
	}
	n.mu.Lock()
	o := n.open.Load()
	if o == nil {
		a = n.attr()
		apply(&a, &set)
		a.Nlink = 0
	} else {
		o.keep(set)
	}
	n.mu.Unlock()
	if o == nil {
		return a, fuse.OK
	}
	a, _, st = f.stat(ctx, n)
	return a, st
}

// changes returns what a SETATTR asks of a layer.
func changes(in *fuse.SetAttrIn) (set overlay.SetAttr) {
	has := func(bit uint32) bool { return in.Valid&bit != 0 }
	if has(fuse.FATTR_MODE) {
		set.Valid |= overlay.SetMode
		set.Mode = in.Mode & overlay.ModeMask
	}
	if has(fuse.FATTR_UID) {
		set.Valid |= overlay.SetUID
		set.UID = in.Uid
	}
	if has(fuse.FATTR_GID) {
		set.Valid |= overlay.SetGID
		set.GID = in.Gid
	}
	if has(fuse.FATTR_SIZE) {
		set.Valid |= overlay.SetSize
		set.Size = int64(min(in.Size, maxOffset))
	}
	switch {
	case has(fuse.FATTR_ATIME_NOW):
		set.Valid |= overlay.SetAtimeNow
	case has(fuse.FATTR_ATIME):
		set.Valid |= overlay.SetAtime
		set.Atime = time.Unix(int64(in.Atime), int64(in.Atimensec))
	}
	switch {
	case has(fuse.FATTR_MTIME_NOW):
		set.Valid |= overlay.SetMtimeNow
	case has(fuse.FATTR_MTIME):
		set.Valid |= overlay.SetMtime
		set.Mtime = time.Unix(int64(in.Mtime), int64(in.Mtimensec))
	}
	if has(fuse.FATTR_KILL_SUIDGID) {
		set.Valid |= overlay.ClearPrivileges
	}
	return set
}
