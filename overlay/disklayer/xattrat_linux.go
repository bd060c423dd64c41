package disklayer

import (
	goruntime "runtime"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below take a file by directory and component. They use the *xattrat
// calls of Linux 6.13, and /proc/self/fd where those are missing.

var noXattrat atomic.Bool

// xattrArgs is the kernel's struct xattr_args, whose value has 8 bytes.
type xattrArgs struct {
	value unsafe.Pointer
	_     [8 - unsafe.Sizeof(uintptr(0))]byte
	size  uint32
	flags uint32
}

// procPath is the path of base in the directory at; of at itself if base is ".".
func procPath(at int, base string) string {
	path := "/proc/self/fd/" + strconv.Itoa(at)
	if base == "." {
		return path
	}
	return path + "/" + base
}

func getxattr(at int, base, attr string, value []byte) (int, error) {
	if !noXattrat.Load() {
		n, errno := xattrat(unix.SYS_GETXATTRAT, at, base, attr, value, 0)
		if errno != unix.ENOSYS {
			return n, asError(errno)
		}
		noXattrat.Store(true)
	}
	if base == "." { // lgetxattr of a magic link would be of the link
		return unix.Getxattr(procPath(at, base), attr, value)
	}
	return unix.Lgetxattr(procPath(at, base), attr, value)
}

func setxattr(at int, base, attr string, value []byte, flags int) error {
	if !noXattrat.Load() {
		_, errno := xattrat(unix.SYS_SETXATTRAT, at, base, attr, value, flags)
		if errno != unix.ENOSYS {
			return asError(errno)
		}
		noXattrat.Store(true)
	}
	if base == "." {
		return unix.Setxattr(procPath(at, base), attr, value, flags)
	}
	return unix.Lsetxattr(procPath(at, base), attr, value, flags)
}

func removexattr(at int, base, attr string) error {
	if base == "." {
		return unix.Removexattr(procPath(at, base), attr)
	}
	return unix.Lremovexattr(procPath(at, base), attr)
}

func listxattr(at int, base string, list []byte) (int, error) {
	if base == "." {
		return unix.Listxattr(procPath(at, base), list)
	}
	return unix.Llistxattr(procPath(at, base), list)
}

// xattrat makes the system call nr, which is getxattrat or setxattrat.
func xattrat(nr uintptr, at int, base, attr string, value []byte, flags int) (int, unix.Errno) {
	path, err := unix.BytePtrFromString(base)
	if err != nil {
		return 0, unix.EINVAL
	}
	name, err := unix.BytePtrFromString(attr)
	if err != nil {
		return 0, unix.EINVAL
	}
	args := xattrArgs{size: uint32(len(value)), flags: uint32(flags)}
	if len(value) > 0 {
		args.value = unsafe.Pointer(unsafe.SliceData(value))
	}
	n, _, errno := unix.Syscall6(nr, uintptr(at), uintptr(unsafe.Pointer(path)), unix.AT_SYMLINK_NOFOLLOW,
		uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	goruntime.KeepAlive(value)
	return int(n), errno
}

func asError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
