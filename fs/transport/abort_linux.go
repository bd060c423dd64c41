package transport

import (
	"errors"
	iofs "io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Abort makes the kernel drop the connection, also of a mount that is detached
// or has copies in other mount namespaces: every call on it fails with ENOTCONN
// from now on, those that wait with ECONNABORTED, and Serve ends. It is not an
// error if the kernel no longer has the connection.
//
// EPERM without privileges where /sys/fs/fuse/connections is not mounted.
func (s *Server) Abort() error {
	_, connection, _ := strings.Cut(s.device, ":") // the list has the minor number
	err := os.WriteFile(controlDir+"/"+connection+"/abort", []byte("1"), 0)
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if err := abortUnmounted(connection); err != nil {
		return &iofs.PathError{Op: "abort", Path: s.point, Err: err}
	}
	return nil
}

// controlDir is where the kernel's list of connections is mounted by custom.
const controlDir = "/sys/fs/fuse/connections"

// abortUnmounted aborts a connection by way of a mount of the kernel's list
// that is in no tree, so that nobody sees it.
func abortUnmounted(connection string) error {
	ctx, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return err
	}
	list, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(list)
	fd, err := unix.Openat(list, connection+"/abort", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, syscall.ENOENT) {
		return nil // the last user has gone, and the connection with it
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("1")); err != nil {
		return err
	}
	return nil
}
