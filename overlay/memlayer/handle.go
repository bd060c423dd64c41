package memlayer

import (
	"context"
	"io"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// A handle is an open file.
type handle struct {
	l    *Layer           // immutable
	n    *node            // immutable
	name overlay.Name     // immutable; as it was opened, for errors
	flag overlay.OpenFlag // immutable
}

// A readOnly is a handle that hides what changes the file.
type readOnly struct{ h *handle }

var (
	_ overlay.WriteHandle = (*handle)(nil)
	_ overlay.Allocator   = (*handle)(nil)
	_ overlay.HoleSeeker  = (*handle)(nil)
	_ overlay.HoleSeeker  = readOnly{}
)

// open returns a new handle on n.
//
// Preconditions: l.mu is held.
func (l *Layer) open(name overlay.Name, n *node, flag overlay.OpenFlag) *handle {
	n.opens++
	return &handle{l: l, n: n, name: name, flag: flag}
}

func (r readOnly) ReadAt(p []byte, off int64) (int, error) { return r.h.ReadAt(p, off) }
func (r readOnly) Stat(ctx context.Context) (overlay.Attr, error) {
	return r.h.Stat(ctx)
}
func (r readOnly) SeekHole(ctx context.Context, off int64, whence int) (int64, error) {
	return r.h.SeekHole(ctx, off, whence)
}
func (r readOnly) Close() error { return r.h.Close() }

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, overlay.PathError("read", h.name, syscall.EINVAL)
	}
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	n := h.n.data.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, overlay.PathError("write", h.name, syscall.EINVAL)
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if h.flag&overlay.Append != 0 {
		off = h.n.data.size
	}
	n := h.n.data.writeAt(p, off, h.l.grow)
	if n > 0 {
		h.l.modified(h.n)
	}
	if n < len(p) {
		return n, overlay.PathError("write", h.name, syscall.ENOSPC)
	}
	return n, nil
}

// grow takes the space of one page, and reports whether there was room.
//
// Preconditions: l.mu is held.
func (l *Layer) grow() bool {
	if l.opt.Bytes > 0 && l.used+pageSize > l.opt.Bytes {
		return false
	}
	l.used += pageSize
	return true
}

// modified notes that the data of n changed.
//
// Preconditions: l.mu is held.
func (l *Layer) modified(n *node) {
	n.mtime = l.now()
	n.ctime = n.mtime
	l.tellNode(n)
}

// Stat implements overlay.Handle.
func (h *handle) Stat(context.Context) (overlay.Attr, error) {
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	return h.l.attr(h.n), nil
}

// SetAttr implements overlay.WriteHandle.
func (h *handle) SetAttr(_ context.Context, set overlay.SetAttr) (overlay.Attr, error) {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	return h.l.setAttr(h.name, h.n, set)
}

// Flush implements overlay.WriteHandle.
func (h *handle) Flush(context.Context) error { return nil }

// Sync implements overlay.WriteHandle.
func (h *handle) Sync(context.Context) error { return nil }

// Close implements overlay.Handle.
func (h *handle) Close() error {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.n.opens--
	h.l.release(h.n)
	return nil
}

// Modes of fallocate(2).
const (
	keepSize  = 1
	punchHole = 2
	zeroRange = 16
)

// Allocate implements overlay.Allocator: space for a range, with or without
// keepSize, punchHole and zeroRange. EOPNOTSUPP for other modes.
func (h *handle) Allocate(_ context.Context, off, size int64, mode uint32) error {
	if off < 0 || size <= 0 {
		return overlay.PathError("fallocate", h.name, syscall.EINVAL)
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	d := &h.n.data
	switch mode {
	case punchHole | keepSize, zeroRange | keepSize, zeroRange:
		h.l.used -= int64(d.punch(off, size)) * pageSize
	case 0, keepSize:
		if err := h.reserve(off, size); err != nil {
			return err
		}
	default:
		return overlay.PathError("fallocate", h.name, syscall.EOPNOTSUPP)
	}
	if mode&keepSize == 0 {
		d.size = max(d.size, off+size)
	}
	h.l.modified(h.n)
	return nil
}

// reserve gives every page of a range below the file's end space, or ENOSPC.
// Space behind the end is not kept.
//
// Preconditions: h.l.mu is held.
func (h *handle) reserve(off, size int64) error {
	d := &h.n.data
	for at := off / pageSize * pageSize; at < min(off+size, d.size); at += pageSize {
		if d.pages[at/pageSize] == nil && d.writeAt([]byte{0}, at, h.l.grow) == 0 {
			return overlay.PathError("fallocate", h.name, syscall.ENOSPC)
		}
	}
	return nil
}

// SeekHole implements overlay.HoleSeeker.
func (h *handle) SeekHole(_ context.Context, off int64, whence int) (int64, error) {
	const seekData, seekHole = 3, 4
	if whence != seekData && whence != seekHole {
		return 0, overlay.PathError("seek", h.name, syscall.EINVAL)
	}
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	at, ok := h.n.data.seek(off, whence == seekHole)
	if !ok {
		return 0, overlay.PathError("seek", h.name, syscall.ENXIO)
	}
	return at, nil
}
