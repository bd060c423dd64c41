package disklayer

import (
	"cmp"
	"context"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A marked is a tree that holds marks.
type marked struct {
	*tree
	links *links // immutable
}

var _ overlay.Finder = marked{}

// close releases what has been opened.
func (m marked) close() {
	if m.links != nil {
		m.links.close()
	}
	if m.marks != nil {
		m.marks.extra.close()
	}
	m.tree.close()
}

// A Frozen is a directory that once was an Upper and does not change any more.
type Frozen struct {
	marked
	closing sync.Once
}

var (
	_ overlay.Reader      = (*Frozen)(nil)
	_ overlay.Whiteouter  = (*Frozen)(nil)
	_ overlay.Marker      = (*Frozen)(nil)
	_ overlay.Xattrer     = (*Frozen)(nil)
	_ overlay.Identified  = (*Frozen)(nil)
	_ overlay.IndexOpener = (*Frozen)(nil)
	_ overlay.Statfser    = (*Frozen)(nil)
)

// OpenFrozen opens the layer that an Upper left at dir. Nothing may change it
// while it is open. It is not written, and access times stay where the kernel
// lets us ask for that. The caller closes it.
func OpenFrozen(dir string, o Options) (*Frozen, error) {
	o = o.withDefaults(dir)
	t, err := openTree(dir, overlay.Exclusive, o)
	if err != nil {
		return nil, err
	}
	t.quiet = true
	extra, err := openMarkFile(o.Meta + "/" + marksName)
	if err != nil {
		t.close()
		return nil, describe("read the marks of", dir, err)
	}
	t.marks = newMarkSet(formatOf(t.root, o.Format), extra, nil)
	links, err := openLinks(o.Meta + "/" + indexName)
	if err != nil {
		t.close()
		return nil, describe("read the index of", dir, err)
	}
	return &Frozen{marked: marked{t, links}}, nil
}

// Close releases the layer. Handles that are open stay good. Further calls do
// nothing.
func (f *Frozen) Close() error {
	f.closing.Do(f.close)
	return nil
}

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

// privileged reports whether the process may use trusted.* attributes. The root
// of another user namespace may not, whatever its capabilities.
func privileged() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	if err == nil && ns != initUserNS {
		return false
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// initUserNS is the first user namespace (PROC_USER_INIT_INO in the kernel).
const initUserNS = "user:[4026531837]"

// Absence implements overlay.Whiteouter.
func (t marked) Absence(_ context.Context, name overlay.Name) (overlay.Absence, error) {
	a, err := t.absence(name)
	if err != nil {
		return overlay.Absence{}, fail("absence", name, err)
	}
	return a, nil
}

// LstatMarks implements overlay.Marker.
func (t marked) LstatMarks(_ context.Context, name overlay.Name) (overlay.Attr, overlay.Absence, error) {
	a, abs, err := t.lstatMarks(name)
	if err != nil {
		return overlay.Attr{}, abs, fail("lstat", name, err)
	}
	return a, abs, nil
}

func (t *tree) lstatMarks(name overlay.Name) (a overlay.Attr, abs overlay.Absence, err error) {
	d, base, err := t.parent(name)
	if err != nil {
		return a, abs, err
	}
	defer t.cache.put(d)
	if a, abs.Gone, err = t.find(d, base, name); err != nil || !a.IsDir() {
		return a, abs, err
	}
	abs, err = t.dirMarks(d, base, name)
	return a, abs, err
}

// Find implements overlay.Finder.
func (t marked) Find(_ context.Context, name overlay.Name) (overlay.Attr, bool, error) {
	d, base, err := t.parent(name)
	if err != nil {
		return overlay.Attr{}, false, fail("lstat", name, err)
	}
	defer t.cache.put(d)
	a, gone, err := t.find(d, base, name)
	if err != nil {
		return overlay.Attr{}, gone, fail("lstat", name, err)
	}
	return a, false, nil
}

// find returns the attributes of name, base in d. With ENOENT gone says whether there
// is a whiteout.
func (t *tree) find(d *dir, base string, name overlay.Name) (a overlay.Attr, gone bool, err error) {
	st, err := lstat(d.fd, base)
	switch {
	case is(err, unix.ENOENT):
		gone, gerr := t.isGone(d, base)
		return a, gone, cmp.Or(gerr, err)
	case err != nil:
		return a, false, err
	case isWhiteout(&st):
		return a, true, unix.ENOENT
	}
	a, err = t.attr(d, base, name, &st)
	return a, false, err
}

// dirMarks returns the marks of the directory name, base in d.
func (t *tree) dirMarks(d *dir, base string, name overlay.Name) (abs overlay.Absence, err error) {
	opaque, err := t.marks.get(d.fd, base, markOpaque)
	if err != nil {
		return abs, err
	}
	abs.Opaque = string(opaque) == "y"
	abs.Redirect, err = t.redirect(d.fd, base, name)
	return abs, err
}

// absence returns what the layer says of name, which need not exist.
func (t *tree) absence(name overlay.Name) (overlay.Absence, error) {
	_, abs, err := t.lstatMarks(name)
	if is(err, unix.ENOENT, unix.ENOTDIR) {
		err = nil
	}
	return abs, err
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
