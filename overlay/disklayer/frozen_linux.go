package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A marked is a tree that holds marks.
type marked struct{ *tree }

// A Frozen is a directory that once was an Upper and does not change any more.
type Frozen struct{ marked }

var (
	_ overlay.Reader     = (*Frozen)(nil)
	_ overlay.Whiteouter = (*Frozen)(nil)
	_ overlay.Xattrer    = (*Frozen)(nil)
	_ overlay.Identified = (*Frozen)(nil)
	_ overlay.Statfser   = (*Frozen)(nil)
)

// OpenFrozen opens the layer that an Upper left at dir. Nothing may change it
// while it is open. The caller closes it.
func OpenFrozen(dir string, o Options) (*Frozen, error) {
	o = o.withDefaults(dir)
	t, err := openTree(dir, overlay.Exclusive, o)
	if err != nil {
		return nil, err
	}
	extra, err := openMarkFile(o.Meta + "/" + marksName)
	if err != nil {
		t.close()
		return nil, describe("read the marks of", dir, err)
	}
	t.marks = newMarkSet(formatOf(t.root, o.Format), extra, nil)
	return &Frozen{marked{t}}, nil
}

// Close releases the layer. Handles that are open stay good.
func (f *Frozen) Close() error { return f.close() }

// formatOf returns the format that the layer at the directory root has; for a
// layer without a mark what the process could write.
func formatOf(root int, asked Format) Format {
	if asked != FormatAuto {
		return asked
	}
	for _, f := range []Format{FormatTrusted, FormatUser} {
		m := newMarkSet(f, &markFile{}, nil)
		if v, err := m.get(root, ".", markFormat); err == nil && v != nil {
			return f
		}
	}
	if privileged() {
		return FormatTrusted
	}
	return FormatUser
}

// privileged reports whether the process may use trusted.* attributes.
func privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Absence implements overlay.Whiteouter.
func (t marked) Absence(_ context.Context, name overlay.Name) (overlay.Absence, error) {
	a, err := t.absence(name)
	if err != nil {
		return overlay.Absence{}, fail("absence", name, err)
	}
	return a, nil
}

func (t *tree) absence(name overlay.Name) (a overlay.Absence, err error) {
	d, base, err := t.parent(name)
	if is(err, unix.ENOENT, unix.ENOTDIR) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	defer t.cache.put(d)
	st, err := lstat(d.fd, base)
	switch {
	case is(err, unix.ENOENT):
		a.Gone, err = t.isGone(d, base)
		return a, err
	case err != nil:
		return a, err
	case isWhiteout(&st):
		a.Gone = true
		return a, nil
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return a, nil
	}
	opaque, err := t.marks.get(d.fd, base, markOpaque)
	if err != nil {
		return a, err
	}
	a.Opaque = string(opaque) == "y"
	a.Redirect, err = t.redirect(d.fd, base, name)
	return a, err
}

// isGone reports whether the mark file whites out base in d, which is not there.
func (t *tree) isGone(d *dir, base string) (bool, error) {
	if t.marks.extra.empty() {
		return false, nil
	}
	st, err := fstat(d.fd)
	return err == nil && t.marks.extra.isGone(st.Ino, base), err
}

// redirect returns where the lower part of the directory name is, which is base
// in the directory at; empty if it has not moved. The kernel writes a lone
// component for a directory that was moved within its parent.
func (t *tree) redirect(at int, base string, name overlay.Name) (overlay.Name, error) {
	v, err := t.marks.get(at, base, markRedirect)
	if err != nil || len(v) == 0 {
		return "", err
	}
	target := overlay.Name(v)
	if v[0] == '/' {
		target = target[1:]
	} else if target, err = t.below(name.Dir(), string(v)); err != nil {
		return "", err
	}
	if target == "" {
		target = overlay.Root
	}
	if target.Check("redirect") != nil {
		return "", unix.EIO // written by nobody who knows the format
	}
	return target, nil
}

// below returns the name that child of the directory dir has in the layers
// below.
func (t *tree) below(dir overlay.Name, child string) (overlay.Name, error) {
	if dir == overlay.Root {
		return overlay.Name(child), nil
	}
	a, err := t.absence(dir)
	if err != nil {
		return "", err
	}
	if a.Redirect == "" {
		if a.Redirect, err = t.below(dir.Dir(), dir.Base()); err != nil {
			return "", err
		}
	}
	return a.Redirect.Join(child), nil
}

// Marks implements overlay.Whiteouter.
func (t marked) Marks(_ context.Context, name overlay.Name) ([]string, error) {
	_, gone, err := t.list(name)
	if err != nil {
		return nil, fail("marks", name, err)
	}
	return gone, nil
}
