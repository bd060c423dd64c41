package transport

import (
	"errors"
	iofs "io/fs"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a mount may take to say that it is dead. The kernel
// answers for a dead server at once; only a living one takes time.
const patience = 2 * time.Second

// maxStale bounds the dead mounts that are taken off one mountpoint.
const maxStale = 64

// Stale reports whether mountpoint is the mount of a server that has died:
// every call on it fails with ENOTCONN. A server that is alive and does not
// answer is not dead.
func Stale(mountpoint string) bool {
	answer := make(chan error, 1)
	go func() {
		// Attributes may still be cached; statfs always asks the server.
		var st unix.Statfs_t
		answer <- unix.Statfs(mountpoint, &st)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-answer:
		return errors.Is(err, syscall.ENOTCONN)
	case <-late.C:
		return false
	}
}

// Detach takes every dead mount of a FUSE server named name ("wsfs" for the
// type fuse.wsfs) off mountpoint. It is not an error if there is none. A mount
// that is alive or of another type is not touched, also when dead ones lie
// below it: then Detach returns nil with the mount in place.
func Detach(mountpoint, name string) error {
	point, err := realPoint(mountpoint)
	if err != nil {
		return err
	}
	for range maxStale {
		top, mounted, err := topMount(point)
		if err != nil {
			return err
		}
		if !mounted || top.fstype != "fuse."+name || !Stale(point) {
			return nil
		}
		if err := unmount(point, true); err != nil {
			return err
		}
	}
	return &iofs.PathError{Op: "detach", Path: mountpoint, Err: syscall.EBUSY}
}

// realPoint returns the absolute path of mountpoint without links, as the
// kernel's mount table names it. Where the table has it, the mountpoint itself
// is not looked at: it may be dead, or served by the caller.
func realPoint(mountpoint string) (string, error) {
	abs, err := filepath.Abs(mountpoint)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	point := filepath.Join(parent, filepath.Base(abs))
	if _, mounted, err := topMount(point); mounted || err != nil {
		return point, err
	}
	return filepath.EvalSymlinks(abs)
}
