//go:build !linux

package transport

import (
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A Server serves one mount; only Linux has it.
type Server struct{}

// Mount fails with errors.ErrUnsupported.
func Mount(mountpoint string, _ fuse.RawFileSystem, _ *fuse.MountOptions, _ Options) (*Server, error) {
	return nil, unsupported("mount", mountpoint)
}

// Unmount fails with errors.ErrUnsupported.
func Unmount(mountpoint string, _ bool) error { return unsupported("unmount", mountpoint) }

// Detach fails with errors.ErrUnsupported.
func Detach(mountpoint, _ string) error { return unsupported("detach", mountpoint) }

// Users fails with errors.ErrUnsupported.
func Users(mountpoint string) ([]Process, error) { return nil, unsupported("users", mountpoint) }

// ServedBy reports false: there are no mounts.
func ServedBy(_, _ string) ([]Process, bool, error) { return nil, false, nil }

// Stale reports false: there are no mounts.
func Stale(string) bool { return false }

func unsupported(op, path string) error {
	return &iofs.PathError{Op: op, Path: path, Err: errors.ErrUnsupported}
}

// Serve returns at once.
func (s *Server) Serve() {}

// WaitMount fails with errors.ErrUnsupported.
func (s *Server) WaitMount() error { return errors.ErrUnsupported }

// Unmount fails with errors.ErrUnsupported.
func (s *Server) Unmount() error { return errors.ErrUnsupported }

// Detach fails with errors.ErrUnsupported.
func (s *Server) Detach() error { return errors.ErrUnsupported }

// Abort fails with errors.ErrUnsupported.
func (s *Server) Abort() error { return errors.ErrUnsupported }

// Mountpoint returns "".
func (s *Server) Mountpoint() string { return "" }

// KernelSettings returns nil.
func (s *Server) KernelSettings() *fuse.InitIn { return nil }

// Stats returns no counts.
func (s *Server) Stats() Stats { return Stats{} }

// InodeNotify returns ENOSYS.
func (s *Server) InodeNotify(uint64, int64, int64) fuse.Status { return fuse.ENOSYS }

// EntryNotify returns ENOSYS.
func (s *Server) EntryNotify(uint64, string) fuse.Status { return fuse.ENOSYS }

// ExpireEntry returns ENOSYS.
func (s *Server) ExpireEntry(uint64, string) fuse.Status { return fuse.ENOSYS }

// DeleteNotify returns ENOSYS.
func (s *Server) DeleteNotify(uint64, uint64, string) fuse.Status { return fuse.ENOSYS }

// PruneNotify returns ENOSYS.
func (s *Server) PruneNotify([]uint64) fuse.Status { return fuse.ENOSYS }

// RegisterBackingFd returns ENOSYS.
func (s *Server) RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno) {
	return 0, syscall.ENOSYS
}

// UnregisterBackingFd returns ENOSYS.
func (s *Server) UnregisterBackingFd(int32) syscall.Errno { return syscall.ENOSYS }
