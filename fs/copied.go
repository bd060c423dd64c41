//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

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
