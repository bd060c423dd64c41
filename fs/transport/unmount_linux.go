package transport

import (
	"errors"
	iofs "io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unmount takes the mount at mountpoint off; lazy detaches it at once also
// while it is in use, and its users go on with it until they close what they
// have. EBUSY if it is in use and not lazy (Users says by whom), EINVAL if
// nothing is mounted there, EPERM if the mount is another user's.
//
// Without privileges it starts fusermount3. A process that serves a mount
// calls Server.Unmount instead.
func Unmount(mountpoint string, lazy bool) error {
	point, err := realPoint(mountpoint)
	if err != nil {
		return err
	}
	return unmount(point, lazy)
}

// unmount is Unmount for a path as the mount table has it.
func unmount(point string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(point, flags)
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		err = unmountByHelper(point, lazy)
	}
	if err != nil {
		return &iofs.PathError{Op: "unmount", Path: point, Err: err}
	}
	return nil
}
