package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A Host is a directory that other programs may change at any time: a project
// or a template. It is never written; access times stay, too, where the kernel
// lets us ask for that, except those of symbolic links.
type Host struct {
	*tree
	watch *hostWatch
}

var (
	_ overlay.Reader     = (*Host)(nil)
	_ overlay.Watcher    = (*Host)(nil)
	_ overlay.Xattrer    = (*Host)(nil)
	_ overlay.Identified = (*Host)(nil)
	_ overlay.Statfser   = (*Host)(nil)
)

// OpenHost opens the directory dir. The caller closes it.
func OpenHost(dir string, o Options) (*Host, error) {
	t, err := openTree(dir, overlay.Host, o.withDefaults(dir))
	if err != nil {
		return nil, err
	}
	h := &Host{tree: t}
	h.watch = &hostWatch{h: h, points: make(map[overlay.Name]*watchPoint)}
	t.covered = h.watch.covers
	return h, nil
}

// Close ends all watches and releases the layer. Handles that are open stay
// good.
func (h *Host) Close() error {
	h.watch.close()
	return h.close()
}

// Open implements overlay.Reader. The name is always looked up from the root of
// the layer, since a directory may have been moved.
func (h *Host) Open(_ context.Context, name overlay.Name) (overlay.Handle, error) {
	fd, err := h.openRegular(name)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return &reader{t: h.tree, fd: fd}, nil
}

// openRegular opens the regular file name. It looks at what it has before it
// opens it for reading: that would touch a FIFO or a device.
func (h *Host) openRegular(name overlay.Name) (int, error) {
	path, err := h.open(h.root, string(name), unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(path)
	st, err := fstat(path)
	switch {
	case err != nil:
		return -1, err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return -1, unix.EISDIR
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return -1, unix.EINVAL
	}
	return openQuiet(procPath(path, "."))
}

// openQuiet opens path for reading without changing its access time, where that
// is allowed.
func openQuiet(path string) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	err = again(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_NOATIME, 0)
		return err
	})
	if is(err, unix.EPERM) { // not ours
		fd, err = unix.Open(path, flags, 0)
	}
	return fd, err
}
