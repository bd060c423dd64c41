package transport

import (
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A device is an open /dev/fuse that is bound to a mount.
//
// Readers use fd directly; they have all ended when close is called.
// Everybody else goes through borrow, so that a late notification never
// reaches a descriptor that has been given to something else.
type device struct {
	fd int // immutable

	// mu is held shared over each use by others than readers. Nothing else
	// is locked while it is held, but the kernel may wait for an answer of
	// ours before it lets a notification return.
	mu     sync.RWMutex
	closed bool // protected by mu
}

// borrow runs f with the descriptor and returns its error, or EBADF without
// running it when the device has been closed.
func (d *device) borrow(f func(fd int) syscall.Errno) syscall.Errno {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return syscall.EBADF
	}
	return f(d.fd)
}

// close closes the descriptor once; the kernel aborts the connection when the
// last one is gone.
func (d *device) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	unix.Close(d.fd)
}

// The ioctls of /dev/fuse (include/uapi/linux/fuse.h).
const (
	devIocBackingOpen  = 0x4010e501
	devIocBackingClose = 0x4004e502
)

func ioctl(fd int, request uintptr, arg unsafe.Pointer) (uintptr, syscall.Errno) {
	r, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return r, errno
}

// RegisterBackingFd hands the file m.Fd to the kernel, which then reads and
// writes it itself for handles that are opened with FOPEN_PASSTHROUGH and the
// returned id. It wants CAP_SYS_ADMIN (EPERM). The privileges of the calling
// thread are those that the kernel uses on the file later.
func (s *Server) RegisterBackingFd(m *fuse.BackingMap) (int32, syscall.Errno) {
	if s.plain != nil {
		return s.plain.RegisterBackingFd(m)
	}
	var id uintptr
	errno := s.dev.borrow(func(fd int) (errno syscall.Errno) {
		id, errno = ioctl(fd, devIocBackingOpen, unsafe.Pointer(m))
		return errno
	})
	return int32(id), errno
}

// UnregisterBackingFd takes back an id that RegisterBackingFd gave. Handles
// that were opened with it go on.
func (s *Server) UnregisterBackingFd(id int32) syscall.Errno {
	if s.plain != nil {
		return s.plain.UnregisterBackingFd(id)
	}
	return s.dev.borrow(func(fd int) syscall.Errno {
		_, errno := ioctl(fd, devIocBackingClose, unsafe.Pointer(&id))
		return errno
	})
}
