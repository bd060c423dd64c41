package kvlayer

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// SetAttr implements overlay.Layer: one commit. One that changes the size also
// commits what open handles of the file have written.
func (l *Layer) SetAttr(ctx context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	if set.Valid&overlay.SetSize != 0 {
		a, err := l.truncateByName(ctx, name, set)
		return a, pathError("setattr", name, err)
	}
	var r *record
	err := l.change(ctx, "setattr", name, func(t *tx) error {
		found, err := find(ctx, t, name)
		if err != nil {
			return err
		}
		r, err = t.setAttr(found.ino, set)
		return err
	})
	if err != nil {
		return overlay.Attr{}, err
	}
	return l.attrOf(r), nil
}

// truncateByName changes attributes of name, the size among them.
func (l *Layer) truncateByName(ctx context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	f, err := l.openFile(ctx, "setattr", name)
	if err != nil {
		return overlay.Attr{}, err
	}
	defer l.release(f)
	if err := f.truncate(ctx, set.Size); err != nil {
		return overlay.Attr{}, err
	}
	if err := f.flushWith(ctx, commitFlush, set); err != nil {
		return overlay.Attr{}, err
	}
	return f.stat(ctx)
}

// setAttr changes attributes of ino, all but the size.
func (t *tx) setAttr(ino uint64, set overlay.SetAttr) (*record, error) {
	if set.Valid == 0 {
		return t.record(ino)
	}
	r, err := t.edit(ino)
	if err != nil {
		return nil, err
	}
	r.applyAttr(set, t.now)
	if f := t.l.openAt(ino); f != nil && set.Valid&(overlay.SetMtime|overlay.SetMtimeNow) != 0 {
		mtime := r.mtime
		t.done = append(t.done, func() { f.setMtime(mtime) })
	}
	t.touched(r)
	return r, nil
}

// applyAttr changes r, which must not be shared, as set says.
func (r *record) applyAttr(set overlay.SetAttr, now time.Time) {
	if set.Valid&overlay.ClearPrivileges != 0 {
		r.clearPrivileges()
	}
	// A symbolic link's mode never changes.
	if set.Valid&overlay.SetMode != 0 && r.typ() != overlay.TypeLink {
		r.mode = r.typ() | set.Mode&overlay.ModeMask
		r.chmodACL()
	}
	if set.Valid&overlay.SetUID != 0 {
		r.uid = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		r.gid = set.GID
	}
	switch {
	case set.Valid&overlay.SetAtime != 0:
		r.atime = set.Atime
	case set.Valid&overlay.SetAtimeNow != 0:
		r.atime = now
	}
	switch {
	case set.Valid&overlay.SetMtime != 0:
		r.mtime = set.Mtime
	case set.Valid&overlay.SetMtimeNow != 0:
		r.mtime = now
	}
	r.ctime = now
}

// clearPrivileges is what a write by somebody else does to a file.
func (r *record) clearPrivileges() {
	if r.isDir() {
		return
	}
	r.mode &^= overlay.ModeSetUID
	if r.mode&0o010 != 0 {
		r.mode &^= overlay.ModeSetGID
	}
	r.xattrs = slices.DeleteFunc(r.xattrs, func(x overlay.Xattr) bool { return x.Name == "security.capability" })
}

// Statfs implements overlay.Statfser: with a quota its size and what is left
// of it; without one, a tebibyte and what the namespace has of it, since a
// store does not tell its size.
func (l *Layer) Statfs(ctx context.Context) (overlay.Statfs, error) {
	if err := l.fresh(ctx); err != nil {
		return overlay.Statfs{}, pathError("statfs", overlay.Root, err)
	}
	l.mu.Lock()
	used, files := l.cache.head.bytes, l.cache.head.seg(l.opt.Segment).files
	l.mu.Unlock()
	const bsize, noQuota, maxFiles = 4096, 1 << 40, 1 << 32
	total := l.opt.Quota
	if total == 0 {
		total = noQuota
	}
	free := uint64(max(0, total-used)) / bsize
	return overlay.Statfs{
		Bsize: bsize, Blocks: uint64(total) / bsize, Bfree: free, Bavail: free,
		Files: maxFiles, Ffree: maxFiles - min(files, maxFiles),
	}, nil
}

// openAt returns the open file ino, nil if there is none.
func (l *Layer) openAt(ino uint64) *file {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[ino]
}

// checkRegular returns what an open of r has to fail with, nil if it is a
// regular file.
func checkRegular(r *record) error {
	switch r.typ() {
	case overlay.TypeReg:
		return nil
	case overlay.TypeDir:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}
