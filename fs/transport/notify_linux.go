package transport

import (
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A notification must not be sent with a lock held that a handler takes: the
// kernel locks the inode or waits for a page, and whoever has that may be
// waiting for an answer. All return ENOENT when the kernel does not know the
// node or the name (nothing is cached then), ENOSYS when it does not know the
// notification, ENODEV or EBADF when the mount is gone.

// InodeNotify drops what the kernel has cached of node: its attributes, and
// the data from off on, length bytes (0: to the end). A negative off leaves
// the data alone.
func (s *Server) InodeNotify(node uint64, off int64, length int64) fuse.Status {
	if s.plain != nil {
		return s.plain.InodeNotify(node, off, length)
	}
	body := fuse.NotifyInvalInodeOut{Ino: node, Off: off, Length: length}
	return s.notify(fuse.NOTIFY_INVAL_INODE, bytesOf(&body), nil)
}

// EntryNotify drops the kernel's entry for name in parent.
func (s *Server) EntryNotify(parent uint64, name string) fuse.Status {
	if s.plain != nil {
		return s.plain.EntryNotify(parent, name)
	}
	return s.notifyEntry(parent, name, 0)
}

// ExpireEntry makes the kernel ask again about name in parent before it next
// uses the entry, without dropping it: a mount below it and a working
// directory in it stay. Kernels before 6.2 drop the entry. In Plain mode it is
// EntryNotify.
func (s *Server) ExpireEntry(parent uint64, name string) fuse.Status {
	if s.plain != nil {
		return s.plain.EntryNotify(parent, name)
	}
	return s.notifyEntry(parent, name, fuse.EXPIRE_ONLY)
}

// DeleteNotify drops the entry for name in parent as if child had been
// deleted: watchers are told, and a directory in use is dropped as well.
func (s *Server) DeleteNotify(parent uint64, child uint64, name string) fuse.Status {
	if s.plain != nil {
		return s.plain.DeleteNotify(parent, child, name)
	}
	body := fuse.NotifyInvalDeleteOut{Parent: parent, Child: child, NameLen: uint32(len(name))}
	return s.notify(fuse.NOTIFY_DELETE, bytesOf(&body), terminated(name))
}

// PruneNotify asks the kernel to forget nodes that nobody uses. ENOSYS before
// Linux 6.18.
func (s *Server) PruneNotify(nodes []uint64) fuse.Status {
	if s.plain != nil {
		return s.plain.PruneNotify(nodes)
	}
	if !s.kernel.SupportsNotify(fuse.NOTIFY_PRUNE) {
		return fuse.ENOSYS
	}
	if len(nodes) == 0 {
		return fuse.OK
	}
	body := fuse.NotifyPruneOut{Count: uint32(len(nodes))}
	return s.notify(fuse.NOTIFY_PRUNE, bytesOf(&body),
		unsafe.Slice((*byte)(unsafe.Pointer(&nodes[0])), 8*len(nodes)))
}

func (s *Server) notifyEntry(parent uint64, name string, flags uint32) fuse.Status {
	body := fuse.NotifyInvalEntryOut{Parent: parent, NameLen: uint32(len(name)), Flags: flags}
	return s.notify(fuse.NOTIFY_INVAL_ENTRY, bytesOf(&body), terminated(name))
}

// notify writes one notification: a header without a request's number, whose
// status says which notification it is.
func (s *Server) notify(code int32, body, tail []byte) fuse.Status {
	head := fuse.OutHeader{Status: -code}
	head.Length = uint32(int(unsafe.Sizeof(head)) + len(body) + len(tail))
	iov := [][]byte{bytesOf(&head), body, tail}
	errno := s.dev.borrow(func(fd int) syscall.Errno {
		return ignoringEINTR(func() error {
			_, err := unix.Writev(fd, iov)
			return err
		})
	})
	if errno == syscall.EINVAL {
		errno = syscall.ENOSYS // the kernel's word for a notification it does not know
	}
	return fuse.Status(errno)
}

// terminated returns name with the NUL that the kernel wants after it.
func terminated(name string) []byte {
	return append([]byte(name), 0)
}

// bytesOf returns the memory of a message of the protocol, which is in the
// machine's own byte order.
func bytesOf[T any](message *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(message)), unsafe.Sizeof(*message))
}
