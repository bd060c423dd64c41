package layertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// A file is a file of the model. It has as many names as it has entries.
type file struct {
	mode     uint32 // type and permission bits
	data     string // of a regular file
	target   string // of a symbolic link
	children map[string]*file
	names    int

	// shared: several names of it were in a lower at once; what its link
	// count then is, is not promised.
	shared bool
	ino    uint64 // as first seen in the tree; 0 until then
}

// A model is a tree of files as simple as can be, which a layer is compared
// with.
type model struct{ root *file }

// newModel returns an empty tree.
func newModel() *model { return &model{newFile(overlay.TypeDir | 0o755)} }

// newFile returns a file of mode.
func newFile(mode uint32) *file {
	f := &file{mode: mode}
	if f.isDir() {
		f.children = make(map[string]*file)
	}
	return f
}

// isDir reports whether f is a directory.
func (f *file) isDir() bool { return f.mode&overlay.TypeMask == overlay.TypeDir }

// isRegular reports whether f is a regular file.
func (f *file) isRegular() bool { return f.mode&overlay.TypeMask == overlay.TypeReg }

// find returns the file name, nil and the reason if there is none.
func (m *model) find(name overlay.Name) (*file, syscall.Errno) {
	f := m.root
	if name == overlay.Root {
		return f, 0
	}
	for c := range strings.SplitSeq(string(name), "/") {
		if !f.isDir() {
			return nil, syscall.ENOTDIR
		}
		if f = f.children[c]; f == nil {
			return nil, syscall.ENOENT
		}
	}
	return f, 0
}

// parent returns the directory of name, nil and the reason if there is none.
func (m *model) parent(name overlay.Name) (*file, syscall.Errno) {
	dir, errno := m.find(name.Dir())
	if errno == 0 && !dir.isDir() {
		return nil, syscall.ENOTDIR
	}
	return dir, errno
}

// set makes f the entry name; nil takes the entry away.
func (m *model) set(name overlay.Name, f *file) {
	dir, _ := m.find(name.Dir())
	base := name.Base()
	if old := dir.children[base]; old != nil {
		old.names--
		delete(dir.children, base)
	}
	if f != nil {
		f.names++
		dir.children[base] = f
	}
}

// route makes name a directory that is there whatever the tree holds.
func (m *model) route(name overlay.Name) {
	if f, _ := m.find(name); f == nil || !f.isDir() {
		m.set(name, newFile(overlay.TypeDir))
	}
	f, _ := m.find(name)
	f.mode = overlay.TypeDir | 0o755
	m.unlink(f)
}

// unlink makes the files below the directory dir files of their own: names of
// one file are not copied up together where they are of different segments.
func (m *model) unlink(dir *file) {
	own := make(map[*file]*file)
	var names []overlay.Name
	dir.each(overlay.Root, func(name overlay.Name, f *file) {
		if !f.isDir() {
			names = append(names, name)
		}
	})
	below := &model{dir}
	for _, name := range names {
		f, _ := below.find(name)
		if own[f] == nil {
			c := *f
			c.names = 0
			own[f] = &c
		}
		below.set(name, own[f])
	}
}

// leave makes the file name, which may have others, a file of its own.
func (m *model) leave(name overlay.Name) {
	f, _ := m.find(name)
	c := *f
	c.names, c.ino, c.shared = 0, 0, false
	m.set(name, &c)
}

// each calls fn for every name of the tree but the root, ascending.
func (m *model) each(fn func(name overlay.Name, f *file)) { m.root.each(overlay.Root, fn) }

func (f *file) each(name overlay.Name, fn func(overlay.Name, *file)) {
	for _, base := range slices.Sorted(maps.Keys(f.children)) {
		c := f.children[base]
		fn(name.Join(base), c)
		c.each(name.Join(base), fn)
	}
}

// lines describes the tree, a line for each name.
func (m *model) lines() []string {
	var all []string
	m.each(func(name overlay.Name, f *file) {
		links := f.names
		if f.isDir() || f.shared {
			links = 0
		}
		all = append(all, line(name, f.mode, f.data, f.target, links))
	})
	return all
}

// line describes one name. links of 0 stands for a count that is not promised.
func line(name overlay.Name, mode uint32, data, target string, links int) string {
	s := fmt.Sprintf("%s %06o", name, mode)
	switch mode & overlay.TypeMask {
	case overlay.TypeReg:
		s += fmt.Sprintf(" %q", data)
	case overlay.TypeLink:
		s += " -> " + target
	}
	if links > 0 {
		s += fmt.Sprintf(" links=%d", links)
	}
	return s
}

// share notes that the tree becomes a lower.
func (m *model) share() {
	m.each(func(_ overlay.Name, f *file) { f.shared = f.shared || f.names > 1 && !f.isDir() })
}

// compare checks that l shows the tree of m, that listings and lookups agree,
// and that every file has the inode number that it always had, and its own.
func (m *model) compare(t TB, l overlay.Reader) {
	t.Helper()
	c := comparison{t: t, l: l, owner: make(map[uint64]*file)}
	c.check(m)
}

// check walks through all of the tree and compares it with m.
func (c *comparison) check(m *model) {
	c.t.Helper()
	c.dir(overlay.Root, m.root)
	if want := m.lines(); !slices.Equal(c.got, want) {
		c.t.Fatalf("the tree is\n\t%s\nwant\n\t%s", strings.Join(c.got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// A comparison is a walk through a layer and the model's tree together.
type comparison struct {
	t     TB
	l     overlay.Reader
	got   []string
	owner map[uint64]*file // by inode number

	anyNumber bool // inode numbers do not count
}

// dir walks through the directory name; f is the model's file there, if it has
// one.
func (c *comparison) dir(name overlay.Name, f *file) {
	c.t.Helper()
	entries, err := c.l.ReadDir(ctx, name)
	if err != nil {
		c.t.Fatalf("ReadDir(%q): %v", name, err)
	}
	for _, e := range entries {
		var child *file
		if f != nil {
			child = f.children[e.Name]
		}
		c.entry(name.Join(e.Name), e, child)
	}
}

// entry looks at the entry e, which is name.
func (c *comparison) entry(name overlay.Name, e overlay.Entry, f *file) {
	c.t.Helper()
	a, err := c.l.Lstat(ctx, name)
	if err != nil {
		c.t.Fatalf("Lstat(%q), which is listed: %v", name, err)
	}
	if e.Type != a.Type() || !c.anyNumber && (e.Ino != a.Ino || a.Ino == 0 || e.Dev != a.Dev) {
		c.t.Fatalf("%q is listed as type %o, ino %#x, Lstat says %o, %#x", name, e.Type, e.Ino, a.Type(), a.Ino)
	}
	var data, target string
	switch a.Type() {
	case overlay.TypeReg:
		data = read(c.t, c.l, name)
	case overlay.TypeLink:
		if target, err = c.l.Readlink(ctx, name); err != nil {
			c.t.Fatalf("Readlink(%q): %v", name, err)
		}
	}
	links := int(a.Nlink)
	if a.IsDir() || f != nil && f.shared {
		links = 0
	}
	c.got = append(c.got, line(name, a.Mode, data, target, links))
	if f != nil && !c.anyNumber {
		c.identity(name, a.Ino, f)
	}
	if a.IsDir() {
		c.dir(name, f)
	}
}

// identity checks that ino is the number of f alone, and was it before.
func (c *comparison) identity(name overlay.Name, ino uint64, f *file) {
	c.t.Helper()
	if other := c.owner[ino]; other != nil && other != f {
		c.t.Fatalf("%q has inode number %#x, which another file has, too", name, ino)
	}
	c.owner[ino] = f
	if f.ino != 0 && f.ino != ino {
		c.t.Fatalf("%q has inode number %#x, had %#x before", name, ino, f.ino)
	}
	f.ino = ino
}
