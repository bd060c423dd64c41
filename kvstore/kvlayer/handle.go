package kvlayer

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Open implements overlay.Reader. It opens the newest version.
func (l *Layer) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	f, err := l.openFile(ctx, "open", name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &readHandle{f: f, name: name}, nil
}

// OpenFile implements overlay.Layer. A file that it makes is committed, empty;
// a truncation is not, until the handle is flushed.
func (l *Layer) OpenFile(ctx context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	if err := name.Check("open"); err != nil {
		return nil, err
	}
	f, made, err := l.openOrMake(ctx, name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	h := &writeHandle{readHandle: readHandle{f: f, name: name}, flag: flag}
	if flag&overlay.Truncate != 0 && !made {
		if err := f.truncate(ctx, 0); err != nil {
			l.release(f)
			return nil, pathError("open", name, err)
		}
	}
	return h, nil
}

// openTries bounds how often an open begins anew because the file was removed
// or made between two of its steps.
const openTries = 100

// openOrMake opens name, and makes it where flag says so. An open and a making
// are two steps: whoever loses the race for the second begins anew.
func (l *Layer) openOrMake(ctx context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (f *file, made bool, err error) {
	for range openTries {
		if flag&overlay.Create == 0 || flag&overlay.Excl == 0 {
			f, err = l.openFile(ctx, "open", name)
			if flag&overlay.Create == 0 || !errors.Is(err, syscall.ENOENT) {
				return f, false, err
			}
		}
		f, err = l.makeFile(ctx, name, perm)
		if flag&overlay.Excl != 0 || !errors.Is(err, syscall.EEXIST) {
			return f, true, err
		}
	}
	return nil, false, err
}

// makeFile makes the new regular file name and opens it.
func (l *Layer) makeFile(ctx context.Context, name overlay.Name, perm overlay.Perm) (f *file, err error) {
	err = l.update(ctx, func(t *tx) error {
		r, err := t.makeNode(name, overlay.TypeReg, perm, nil)
		if err != nil {
			return err
		}
		t.done = append(t.done, func() {
			f = l.newFile(r, name)
			f.refs++
			l.open[r.ino] = f
		})
		return nil
	})
	return f, err
}

// openFile opens the regular file name in its newest version.
func (l *Layer) openFile(ctx context.Context, op string, name overlay.Name) (*file, error) {
	for range openTries {
		r, err := l.newest(ctx, op, name)
		if err != nil {
			return nil, err
		}
		if err := checkRegular(r); err != nil {
			return nil, err
		}
		if f := l.attach(r, name); f != nil {
			f.catchUp(r)
			return f, nil
		}
	}
	return nil, syscall.EIO
}

// attach returns the open file of r with one more handle; nil if r may have
// been removed since it was read.
func (l *Layer) attach(r *record, name overlay.Name) *file {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.open[r.ino]
	if f == nil {
		if l.cache.recs[r.ino] == nil {
			return nil
		}
		f = l.newFile(r, name)
		l.open[r.ino] = f
	}
	f.refs++
	return f
}

// release gives up one handle; with the last one goes what is not committed.
func (l *Layer) release(f *file) {
	l.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		if l.open[f.ino] == f {
			delete(l.open, f.ino)
		}
		delete(l.orphans, f)
	}
	l.mu.Unlock()
	if last {
		f.discard()
	}
}

// orphanLocked notes that f has lost its last name; old is what it was.
//
// Preconditions: l.mu is held.
func (l *Layer) orphanLocked(f *file, old *record) {
	r := old.clone()
	r.links = nil
	r.ctime = l.opt.Now()
	f.orphan = r
	delete(l.open, f.ino)
	l.orphans[f] = struct{}{}
}

// follow notes that this layer changed the record, but not the content.
func (f *file) follow(r *record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.version == f.base.version {
		f.base = r
	}
}

// stat returns the attributes of the open file.
func (f *file) stat(ctx context.Context) (overlay.Attr, error) {
	if r := f.orphaned(); r != nil {
		a := r.attr(f.l.opt.Dev)
		f.overlayAttr(&a)
		return a, nil
	}
	if err := f.l.fresh(ctx); err != nil {
		return overlay.Attr{}, err
	}
	r, err := f.l.record(ctx, f.ino)
	switch {
	case err != nil:
		return overlay.Attr{}, err
	case r != nil:
		f.catchUp(r)
	default:
		// Somebody else removed it; what is open stays.
		f.mu.Lock()
		r = f.base.clone()
		f.mu.Unlock()
		r.links = nil
	}
	a := r.attr(f.l.opt.Dev)
	f.overlayAttr(&a)
	return a, nil
}

// orphaned returns the record of a file that has lost its last name, nil for
// other files.
func (f *file) orphaned() *record {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.orphan
}

// setAttr changes attributes of the open file, all but the size.
func (f *file) setAttr(ctx context.Context, set overlay.SetAttr) (overlay.Attr, error) {
	if f.setOrphan(set) {
		return f.stat(ctx)
	}
	var r *record
	err := f.l.update(ctx, func(t *tx) error {
		now, err := t.record(f.ino)
		switch {
		case err != nil:
			return err
		case now == nil && !f.setOrphan(set):
			return syscall.ESTALE
		case now == nil:
			return nil
		}
		r, err = t.setAttr(f.ino, set)
		return err
	})
	if err != nil || r == nil {
		return overlay.Attr{}, err
	}
	a := r.attr(f.l.opt.Dev)
	f.overlayAttr(&a)
	return a, nil
}

// setOrphan changes attributes of a file without a name; false if it has one.
func (f *file) setOrphan(set overlay.SetAttr) bool {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if f.orphan == nil {
		return false
	}
	r := f.orphan.clone()
	r.applyAttr(set, f.l.opt.Now())
	f.orphan = r
	if set.Valid&(overlay.SetMtime|overlay.SetMtimeNow) != 0 {
		f.setMtime(r.mtime)
	}
	return true
}

// A readHandle is a file open for reading.
type readHandle struct {
	f      *file
	name   overlay.Name
	closed atomic.Bool
}

// A writeHandle is a file open for reading and writing.
type writeHandle struct {
	readHandle
	flag overlay.OpenFlag
}

var (
	_ overlay.Handle      = (*readHandle)(nil)
	_ overlay.WriteHandle = (*writeHandle)(nil)
	_ overlay.Allocator   = (*writeHandle)(nil)
)

// ReadAt implements io.ReaderAt.
func (h *readHandle) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.f.readAt(context.Background(), p, off)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return n, pathError("read", h.name, err)
	}
	return n, err // io.EOF
}

// Stat implements overlay.Handle. A file without uncommitted writes goes on
// with the newest version.
func (h *readHandle) Stat(ctx context.Context) (overlay.Attr, error) {
	a, err := h.f.stat(ctx)
	return a, pathError("stat", h.name, err)
}

// Close implements overlay.Handle.
func (h *readHandle) Close() error {
	if h.closed.Swap(true) {
		return overlay.PathError("close", h.name, syscall.EBADF)
	}
	h.f.l.release(h.f)
	return nil
}

// WriteAt implements io.WriterAt. On a handle that appends off does not count.
func (h *writeHandle) WriteAt(p []byte, off int64) (n int, err error) {
	ctx := context.Background()
	if h.flag&overlay.Append != 0 {
		n, err = h.f.append(ctx, p)
	} else {
		n, err = h.f.overwrite(ctx, p, off)
	}
	if err == nil && h.flag&overlay.SyncData != 0 {
		err = h.f.flush(ctx, commitFlush)
	}
	return n, pathError("write", h.name, err)
}

// SetAttr implements overlay.WriteHandle. A change of size is committed with
// the next Flush, the rest at once.
func (h *writeHandle) SetAttr(ctx context.Context, set overlay.SetAttr) (overlay.Attr, error) {
	if set.Valid&overlay.SetSize != 0 {
		if err := h.f.truncate(ctx, set.Size); err != nil {
			return overlay.Attr{}, pathError("setattr", h.name, err)
		}
		if set.Valid &^= overlay.SetSize; set.Valid == 0 {
			return h.Stat(ctx)
		}
	}
	a, err := h.f.setAttr(ctx, set)
	return a, pathError("setattr", h.name, err)
}

// Flush implements overlay.WriteHandle: what the file holds is committed, with
// whatever the conflict policies make of it.
func (h *writeHandle) Flush(ctx context.Context) error {
	return pathError("flush", h.name, h.f.flush(ctx, commitFlush))
}

// Sync implements overlay.WriteHandle. It is Flush: a commit is as durable as
// the store is.
func (h *writeHandle) Sync(ctx context.Context) error {
	return pathError("sync", h.name, h.f.flush(ctx, commitFlush))
}

// Close commits what was written since the last Flush and closes the handle.
// What cannot be committed is in a sidecar, or lost if the error says so.
func (h *writeHandle) Close() error {
	if h.closed.Swap(true) {
		return overlay.PathError("close", h.name, syscall.EBADF)
	}
	err := h.f.flush(context.Background(), commitRelease)
	if err != nil {
		h.f.l.opt.Log.Error("kvlayer: not committed at close", "name", h.name, "err", err)
	}
	h.f.l.release(h.f)
	return pathError("close", h.name, err)
}
