package badgerkv

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace returns how many bytes of dir's file system this process may use.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			return int64(st.Bavail) * st.Bsize, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
	}
}

// allocate gives the bytes from off on of the file path, which is made if it
// does not exist, blocks on the disk; its length stays. On file systems that
// cannot do that nothing happens: there only what is free counts.
func allocate(path string, off, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, size)
		switch {
		case err == nil, errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fallocate", Path: path, Err: err}
		}
	}
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// diskSize returns how many bytes the file path takes of the disk; 0 if there
// is none.
func diskSize(path string) int64 {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0
	}
	return st.Blocks * 512
}
