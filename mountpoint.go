package wsfs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"

	"github.com/wsfs/wsfs/fs/transport"
)

// A mountpoint is a directory that is ready to be mounted on.
type mountpoint struct {
	path string
	made bool // by us: removed again if nothing comes of it
}

// prepareMountpoint makes path ready: a dead mount of an earlier process is
// detached, a directory that does not exist is made. It must be empty, be served
// by no living wsfs, and lie in none of layers, whose tree would then show the
// mount, and the mount itself, without end.
func prepareMountpoint(path string, layers []string) (mountpoint, error) {
	for _, l := range layers {
		if inside(path, l) {
			return mountpoint{}, fmt.Errorf("mountpoint %s lies inside %s, which the mount would show: choose another", path, l)
		}
	}
	if transport.Stale(path) {
		if err := transport.Detach(path, "wsfs"); err != nil {
			return mountpoint{}, fmt.Errorf("mountpoint %s: a dead mount cannot be removed: %w", path, err)
		}
	}
	m := mountpoint{path: path}
	switch err := os.Mkdir(path, 0o755); {
	case err == nil:
		m.made = true
	case !errors.Is(err, iofs.ErrExist):
		return mountpoint{}, fmt.Errorf("mountpoint: %w", err)
	default:
		if err := checkFree(path); err != nil {
			return m, err
		}
	}
	return m, checkEmpty(path)
}

// checkFree refuses a mountpoint that a wsfs serves, and says which process that
// is, as far as it can be told.
func checkFree(path string) error {
	by, served, err := transport.ServedBy(path, "wsfs")
	if err != nil {
		return fmt.Errorf("mountpoint %s: %w", path, err)
	}
	if !served {
		return nil
	}
	who := "a process that cannot be told"
	if len(by) > 0 {
		who = fmt.Sprintf("process %d", by[0].PID)
	}
	return fmt.Errorf("mountpoint %s: %w by the wsfs of %s; choose another, or unmount it first: wsfs umount %s", path, ErrInUse, who, path)
}

// checkEmpty refuses a mountpoint that holds something, which would be hidden.
func checkEmpty(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("mountpoint: %w", err)
	}
	defer d.Close()
	switch _, err := d.ReadDir(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("mountpoint: %w", err)
	}
	return fmt.Errorf("mountpoint %s is not empty: what it holds would be hidden; choose another", path)
}

// undo takes back what preparing made.
func (m mountpoint) undo() error {
	if !m.made {
		return nil
	}
	return os.Remove(m.path)
}
