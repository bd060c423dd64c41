package disklayer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A seam is called before each step that changes something on disk. See
// Options.fault.
type seam func(step string) error

func (s seam) at(step string) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// fail returns the error of op on name for what a system call returned.
func fail(op string, name overlay.Name, err error) error {
	return overlay.PathError(op, name, errnoOf(err))
}

// errnoOf returns the errno inside err: EINTR if a context ended, EIO where
// there is none, which is a fault of the layer or of what it read from.
func errnoOf(err error) unix.Errno {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return unix.EINTR
	}
	return unix.EIO
}

func is(err error, errnos ...unix.Errno) bool {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// again calls fn until a signal does not interrupt it.
func again(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// maxPath is how long a path one call takes: PATH_MAX without the NUL.
const maxPath = 4095

const resolveHow = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// noOpenat2 is set once openat2 was found missing (Linux before 5.6) or
// forbidden (a container's seccomp filter).
var noOpenat2 atomic.Bool

// openBeneath opens path, relative to the directory at and of any length,
// without following a link: one in the middle is ENOTDIR.
func openBeneath(at int, path string, flags int) (int, error) {
	from := at
	for len(path) > maxPath {
		cut := strings.LastIndexByte(path[:maxPath], '/')
		next, err := openOnce(from, path[:cut], unix.O_PATH|unix.O_DIRECTORY)
		closeUnless(from, at)
		if err != nil {
			return -1, err
		}
		from, path = next, path[cut+1:]
	}
	fd, err := openOnce(from, path, flags)
	closeUnless(from, at)
	return fd, err
}

func closeUnless(fd, keep int) {
	if fd != keep {
		unix.Close(fd)
	}
}

func openOnce(at int, path string, flags int) (fd int, err error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if noOpenat2.Load() {
		return openByStep(at, path, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolveHow}
	err = again(func() (err error) {
		fd, err = unix.Openat2(at, path, &how)
		return err
	})
	switch {
	case is(err, unix.ENOSYS, unix.EPERM) && !probeOpenat2():
		noOpenat2.Store(true)
		return openByStep(at, path, flags)
	case is(err, unix.ELOOP):
		return -1, unix.ENOTDIR
	case is(err, unix.EAGAIN): // a rename on the way raced with the walk
		return openByStep(at, path, flags)
	}
	return fd, err
}

// probeOpenat2 reports whether the kernel has openat2 and lets us use it.
func probeOpenat2() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// openByStep is openBeneath without openat2: a component at a time.
func openByStep(at int, path string, flags int) (int, error) {
	from := at
	for {
		dir, rest, more := strings.Cut(path, "/")
		if !more {
			fd, err := openat(from, path, flags)
			closeUnless(from, at)
			return fd, err
		}
		next, err := openat(from, dir, unix.O_PATH|unix.O_DIRECTORY)
		closeUnless(from, at)
		if err != nil {
			return -1, err
		}
		from, path = next, rest
	}
}

// openat opens the one component base without following it.
func openat(at int, base string, flags int) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat(at, base, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if is(err, unix.ELOOP) {
		return -1, unix.ENOTDIR
	}
	return fd, err
}

// lstat is fstatat that never follows; base "." is the directory itself.
func lstat(at int, base string) (st unix.Stat_t, err error) {
	err = again(func() error {
		return unix.Fstatat(at, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return st, err
}

func fstat(fd int) (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Fstat(fd, &st) })
	return st, err
}

// isWhiteout reports whether st is of the kernel's mark of a name that is gone.
func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// setTimes sets the times of base in the directory at, or of the open file at
// if base is empty.
func setTimes(at int, base string, times *[2]unix.Timespec) error {
	if base != "" {
		return unix.UtimesNanoAt(at, base, times[:], unix.AT_SYMLINK_NOFOLLOW)
	}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(at), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
