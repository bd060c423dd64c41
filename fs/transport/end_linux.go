package transport

import (
	"errors"
	iofs "io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Unmount takes the mount off and waits until Serve has returned. EBUSY if it
// is in use (Users says by whom); it goes on being served then. It is not an
// error if it was unmounted already. Handlers that do not end within
// Options.Grace, and copies of the mount in other mount namespaces, are cut
// off by aborting the connection.
func (s *Server) Unmount() error { return s.end(false) }

// Detach is Unmount for a mount in use: it goes from the tree at once, its
// users keep it until Options.Grace has passed.
func (s *Server) Detach() error { return s.end(true) }

func (s *Server) end(lazy bool) error {
	if err := s.takeOff(lazy); err != nil {
		return err
	}
	if s.begun.CompareAndSwap(false, true) {
		s.abandon()
	}
	return s.await()
}

// takeOff unmounts, unless the mount is no longer there. EBUSY also if
// something else has been mounted on top of it.
func (s *Server) takeOff(lazy bool) error {
	table, err := mountTable("self")
	if err != nil {
		return err
	}
	there := false
	top := ""
	for _, e := range table {
		if e.point == s.point {
			top = e.device
			there = there || e.device == s.device
		}
	}
	switch {
	case !there:
		return nil
	case top != s.device:
		return &iofs.PathError{Op: "unmount", Path: s.point, Err: syscall.EBUSY}
	}
	err = unmount(s.point, lazy)
	if errors.Is(err, syscall.EINVAL) {
		return nil // somebody else was faster
	}
	return err
}

// abandon ends a mount that was never served.
func (s *Server) abandon() {
	if s.dev != nil {
		s.dev.close()
	} else {
		s.plain.Serve() // reads ENODEV, and closes
	}
	s.gone()
}

// afterAbort is the least time that a handler gets to notice its cancellation.
const afterAbort = time.Second

// await waits for Serve to end, first as long as handlers may take, then for
// the abort to end it. ETIMEDOUT if a handler does not end even then.
func (s *Server) await() error {
	if s.ended(s.grace) {
		return nil
	}
	if err := s.Abort(); err != nil {
		return err
	}
	if s.ended(max(s.grace, afterAbort)) {
		return nil
	}
	return &iofs.PathError{Op: "unmount", Path: s.point, Err: syscall.ETIMEDOUT}
}

// ended waits for Serve to end, for at most d, and reports whether it has.
func (s *Server) ended(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-s.served:
		return true
	case <-late.C:
		return false
	}
}

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
