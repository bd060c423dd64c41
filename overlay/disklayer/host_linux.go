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

// Open implements overlay.Reader.
func (h *Host) Open(_ context.Context, name overlay.Name) (overlay.Handle, error) {
	fd, err := h.openRegular(name)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return &reader{t: h.tree, fd: fd}, nil
}

// openRegular opens the regular file name. It looks at what it has before it
// opens it, which would touch a FIFO or a device; one that comes in between is
// let go at once. It opens the name from the root of the layer, since a directory
// may have been moved.
func (h *Host) openRegular(name overlay.Name) (int, error) {
	d, base, err := h.parent(name)
	if err != nil {
		return -1, err
	}
	_, err = h.regular(d, base)
	h.cache.put(d)
	if err != nil {
		return -1, err
	}
	fd, err := h.openQuiet(name)
	if err != nil {
		return -1, err
	}
	st, err := fstat(fd)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openQuiet opens name for reading without changing its access time, where that
// is allowed.
func (h *Host) openQuiet(name overlay.Name) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK
	fd, err := h.open(h.root, string(name), flags|unix.O_NOATIME)
	if is(err, unix.EPERM) { // not ours
		return h.open(h.root, string(name), flags)
	}
	return fd, err
}
