//go:build linux

package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// status returns what the kernel is told of err, the result of op on a file:
// the one errno table.
//
// An errno inside the error is about the file, see overlay.PathError, and is
// looked for first: errors.Is takes ENOTEMPTY for fs.ErrExist. ENOSYS is never
// sent, since the kernel would remember it and not ask again.
func (f *FS) status(op string, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if errno == syscall.ENOSYS || errno == 0 {
			return fuse.Status(syscall.EOPNOTSUPP)
		}
		return fuse.Status(errno)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	case errors.Is(err, context.DeadlineExceeded):
		return fuse.Status(syscall.ETIMEDOUT)
	case errors.Is(err, errors.ErrUnsupported):
		return fuse.Status(syscall.EOPNOTSUPP)
	case errors.Is(err, iofs.ErrNotExist):
		return fuse.ENOENT
	case errors.Is(err, iofs.ErrExist):
		return fuse.Status(syscall.EEXIST)
	case errors.Is(err, iofs.ErrPermission):
		return fuse.EACCES
	case errors.Is(err, iofs.ErrInvalid):
		return fuse.EINVAL
	}
	f.log.Error("fs: a layer failed", "op", op, "err", err)
	return fuse.EIO
}

// Statuses that go-fuse has no name for.
const (
	estale       = fuse.Status(syscall.ESTALE)
	enametoolong = fuse.Status(syscall.ENAMETOOLONG)
	enxio        = fuse.Status(syscall.ENXIO)
	eopnotsupp   = fuse.Status(syscall.EOPNOTSUPP)
	enotty       = fuse.Status(syscall.ENOTTY)
	e2big        = fuse.Status(syscall.E2BIG)
)
