package kvlayer

import (
	"context"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Tmpfile implements overlay.Tmpfiler. The store learns of the file only when
// it is linked.
func (l *Layer) Tmpfile(ctx context.Context, dir overlay.Name, perm overlay.Perm) (overlay.WriteHandle, error) {
	var f *file
	err := l.change(ctx, "tmpfile", dir, func(t *tx) error {
		ino, err := findDir(ctx, t, dir)
		if err != nil {
			return err
		}
		parent, err := t.record(ino)
		if err != nil {
			return err
		}
		r := t.newRecord(overlay.TypeReg, perm.Mode, perm.UID, perm.GID)
		if parent != nil {
			inherit(r, parent, perm)
		}
		// Only the number is taken, so that no other file gets it.
		t.seg.ino++
		r.ino, r.version, t.quiet = t.seg.ino, 0, true
		t.done = append(t.done, func() {
			f = l.newFile(r, dir)
			f.refs, f.orphan = 1, r
			l.orphans[f] = struct{}{}
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &writeHandle{readHandle: readHandle{f: f, name: dir}}, nil
}

// LinkHandle implements overlay.Tmpfiler. What the file holds is committed.
func (l *Layer) LinkHandle(ctx context.Context, h overlay.WriteHandle, newname overlay.Name) error {
	w, ok := overlay.As[*writeHandle](h)
	if !ok || w.f.l != l {
		return overlay.PathError("link", newname, syscall.EINVAL)
	}
	if err := newname.Check("link"); err != nil {
		return err
	}
	f := w.f
	f.write.Lock()
	defer f.write.Unlock()
	err := l.putContent(ctx, f.layOutOld, func(t *tx, c content) error {
		at, _, err := t.vacant(newname)
		if err != nil {
			return err
		}
		now := f.orphaned()
		if now == nil {
			return t.addName(f.ino, at)
		}
		r := now.clone()
		r.content, r.version, r.ctime = c, t.n, t.now
		f.mu.Lock()
		if f.dirty {
			r.mtime = f.mtime
		}
		f.mu.Unlock()
		t.recs[r.ino] = &recChange{new: r}
		t.log(OpCreate, at, r)
		t.done = append(t.done, func() {
			f.orphan = nil
			delete(l.orphans, f)
			l.open[r.ino] = f
			f.advance(r)
		})
		return t.place(at, r)
	})
	return pathError("link", newname, errnoOf(err))
}

// The modes of fallocate(2).
const (
	fallocKeepSize  = 0x01
	fallocPunchHole = 0x02
	fallocZeroRange = 0x10
)

// Allocate implements overlay.Allocator. No space is set aside: the store has
// none to give. Punching and zeroing write zeros, which take no space.
func (h *writeHandle) Allocate(ctx context.Context, off, size int64, mode uint32) error {
	return pathError("fallocate", h.name, h.f.allocate(ctx, off, size, mode))
}

// allocate does what Allocate says.
func (f *file) allocate(ctx context.Context, off, size int64, mode uint32) error {
	end := off + size
	switch {
	case off < 0 || size <= 0:
		return syscall.EINVAL
	case end > MaxFile || end < off:
		return syscall.EFBIG
	}
	var clears bool
	switch mode {
	case fallocKeepSize, 0:
	case fallocPunchHole | fallocKeepSize, fallocZeroRange, fallocZeroRange | fallocKeepSize:
		clears = true
	default:
		return syscall.ENOTSUP
	}
	keeps := mode&fallocKeepSize != 0
	if !keeps {
		if err := f.checkQuota(ctx, end); err != nil {
			return err
		}
	}
	f.write.Lock()
	defer f.write.Unlock()
	f.mu.Lock()
	old := f.body.size
	f.mu.Unlock()
	if clears {
		if err := f.clear(ctx, off, min(end, old)); err != nil {
			return err
		}
	}
	if keeps || end <= old {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.body.size, f.appendOnly = end, false
	f.changedLocked()
	return nil
}

// clear makes the bytes [off, end) zeros.
//
// Preconditions: f.write is held exclusively.
func (f *file) clear(ctx context.Context, off, end int64) error {
	for off < end {
		i, at := off/blockSize, off%blockSize
		n := min(end-off, blockSize-at)
		f.mu.Lock()
		f.appendOnly = false
		if n == blockSize {
			f.l.dirty.Add(-int64(f.body.zero(i)))
			f.changedLocked()
		}
		f.mu.Unlock()
		if n < blockSize {
			if _, err := f.writeAt(ctx, zeros[:n], off); err != nil {
				return err
			}
		}
		off += n
	}
	return nil
}
