package disklayer

import (
	"context"
	"io"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A reader is a regular file open for reading.
type reader struct {
	t      *tree
	fd     int
	marked bool // it may have an origin
}

// FD implements overlay.Filer.
func (r *reader) FD() int { return r.fd }

// Close implements overlay.Handle.
func (r *reader) Close() error { return unix.Close(r.fd) }

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := again(func() (err error) {
			m, err = unix.Pread(r.fd, p[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, fail("read", "", err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// Stat implements overlay.Handle.
func (r *reader) Stat(context.Context) (overlay.Attr, error) {
	st, err := fstat(r.fd)
	if err != nil {
		return overlay.Attr{}, fail("stat", "", err)
	}
	a := attrOf(&st, r.t.source)
	if !r.marked {
		return a, nil
	}
	o, err := r.t.marks.originOf(r.fd, st.Ino)
	if err != nil {
		return overlay.Attr{}, fail("stat", "", err)
	}
	a.Origin = o.ino
	a.Nlink = o.shownLinks(a.Nlink)
	return a, nil
}

// SeekHole implements overlay.HoleSeeker.
func (r *reader) SeekHole(_ context.Context, off int64, whence int) (int64, error) {
	at, err := unix.Seek(r.fd, off, whence)
	if err != nil {
		return 0, fail("lseek", "", err)
	}
	return at, nil
}

// A writer is a regular file of an Upper open for reading and writing.
type writer struct {
	reader
	u *Upper
	// ino is the inode number; 0 of a file that is new, and so never a pending
	// copy.
	ino uint64

	nameless bool // made by Tmpfile
}

// WriteAt implements io.WriterAt.
func (w *writer) WriteAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := again(func() (err error) {
			m, err = unix.Pwrite(w.fd, p[n:], off+int64(n))
			return err
		})
		if err != nil {
			return n, fail("write", "", err)
		}
		n += m
	}
	return n, nil
}

// Flush implements overlay.WriteHandle: other openers see what was written
// already.
func (w *writer) Flush(context.Context) error { return nil }

// Sync implements overlay.WriteHandle.
func (w *writer) Sync(context.Context) error {
	if err := w.u.step("fsync"); err != nil {
		return fail("fsync", "", err)
	}
	err := again(func() error { return unix.Fsync(w.fd) })
	if err == nil {
		err = w.u.pending.settle(w.ino, w.fd)
	}
	if err == nil {
		err = w.u.marks.extra.sync()
	}
	if err != nil {
		return fail("fsync", "", err)
	}
	return nil
}

// Allocate implements overlay.Allocator.
func (w *writer) Allocate(_ context.Context, off, size int64, mode uint32) error {
	err := w.u.pending.settle(w.ino, w.fd)
	if err == nil {
		err = again(func() error { return unix.Fallocate(w.fd, mode, off, size) })
	}
	if err != nil {
		return fail("fallocate", "", err)
	}
	return nil
}

// SetAttr implements overlay.WriteHandle.
func (w *writer) SetAttr(ctx context.Context, set overlay.SetAttr) (overlay.Attr, error) {
	st, err := fstat(w.fd)
	if err == nil {
		err = w.u.change(target{at: w.fd, open: true}, &st, set)
	}
	if err != nil {
		return overlay.Attr{}, fail("setattr", "", err)
	}
	return w.Stat(ctx)
}

// Open implements overlay.Reader for layers that only this process changes.
func (t *tree) Open(_ context.Context, name overlay.Name) (overlay.Handle, error) {
	d, base, err := t.parent(name)
	if err != nil {
		return nil, fail("open", name, err)
	}
	defer t.cache.put(d)
	if _, err := t.regular(d, base); err != nil {
		return nil, fail("open", name, err)
	}
	fd, err := t.openToRead(d, base)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return &reader{t: t, fd: fd, marked: t.impure(d)}, nil
}

// regular returns what the regular file base in d is; EISDIR or EINVAL if it
// is something else.
func (t *tree) regular(d *dir, base string) (unix.Stat_t, error) {
	st, err := t.stat(d, base)
	if err != nil {
		return st, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return st, nil
	case unix.S_IFDIR:
		return st, unix.EISDIR
	}
	return st, unix.EINVAL
}

// openToRead opens base in d, which is known to be a regular file.
func (t *tree) openToRead(d *dir, base string) (int, error) {
	if t.quiet {
		fd, err := t.openFile(d, base, unix.O_RDONLY|unix.O_NOATIME)
		if !is(err, unix.EPERM) {
			return fd, err
		}
	}
	return t.openFile(d, base, unix.O_RDONLY)
}

// openFile opens base in d, which is known to be a regular file.
func (t *tree) openFile(d *dir, base string, flags int) (int, error) {
	fd, err := openat(d.fd, base, flags|unix.O_NONBLOCK)
	if is(err, unix.EMFILE, unix.ENFILE) && t.cache.shrink() {
		return openat(d.fd, base, flags|unix.O_NONBLOCK)
	}
	return fd, err
}
