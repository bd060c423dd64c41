package disklayer

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A tree is the part that all layers on disk share: a directory, read through
// descriptors.
type tree struct {
	root   int            // the layer's directory, open; immutable
	source overlay.Source // immutable
	opt    Options        // immutable
	cache  *dirCache      // immutable
	marks  *markSet       // nil for a Host, which has none; immutable

	// quiet: access times shall not change. Immutable.
	quiet bool
	// covered reports whether a cached descriptor of a directory would stay
	// true; nil if it always does. Immutable.
	covered func(overlay.Name) bool
}

func openTree(dir string, source overlay.Source, o Options) (*tree, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &tree{root: root, source: source, quiet: source == overlay.Host, opt: o, cache: newDirCache(o.MaxDirs)}, nil
}

// LayerID returns Options.ID.
func (t *tree) LayerID() string { return t.opt.ID }

func (t *tree) close() error {
	t.cache.close()
	return unix.Close(t.root)
}

// dir returns the directory name, held: give it back with cache.put.
func (t *tree) dir(name overlay.Name) (*dir, error) {
	for {
		d, gen := t.cache.get(name)
		if d != nil {
			return d, nil
		}
		kept := t.covered == nil || t.covered(name)
		fd, err := t.openDir(name)
		if err != nil {
			return nil, err
		}
		if !kept {
			return &dir{fd: fd, name: name, refs: 1}, nil
		}
		if d = t.cache.add(name, fd, gen); d != nil {
			return d, nil
		}
	}
}

// openDir opens the directory name, from its parent if that is cached and stays
// true.
func (t *tree) openDir(name overlay.Name) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY
	if t.covered != nil || name == overlay.Root {
		return t.open(t.root, string(name), flags)
	}
	parent, _ := t.cache.get(name.Dir())
	if parent == nil {
		return t.open(t.root, string(name), flags)
	}
	defer t.cache.put(parent)
	return t.open(parent.fd, name.Base(), flags)
}

// open is openBeneath that gives up cached directories where descriptors run
// out.
func (t *tree) open(at int, path string, flags int) (int, error) {
	fd, err := openBeneath(at, path, flags)
	if is(err, unix.EMFILE, unix.ENFILE) && t.cache.shrink() {
		return openBeneath(at, path, flags)
	}
	return fd, err
}

// parent returns the directory that name is in, held, and name's component in
// it. The root is "." in itself.
func (t *tree) parent(name overlay.Name) (*dir, string, error) {
	dir, base := name.Split()
	d, err := t.dir(dir)
	if is(err, unix.ENOTDIR) && t.marks != nil {
		err = t.whyNotDir(dir)
	}
	return d, base, err
}

// whyNotDir returns the right error for a name below dir, which the kernel said
// is none: for a whiteout on the way that is ENOENT.
func (t *tree) whyNotDir(dir overlay.Name) error {
	for ; dir != overlay.Root; dir = dir.Dir() {
		d, err := t.dir(dir.Dir())
		if err != nil {
			continue
		}
		st, err := lstat(d.fd, dir.Base())
		t.cache.put(d)
		if err != nil || isWhiteout(&st) {
			return unix.ENOENT
		}
		return unix.ENOTDIR
	}
	return unix.ENOTDIR
}

// stat returns what base in d is; ENOENT for a whiteout.
func (t *tree) stat(d *dir, base string) (unix.Stat_t, error) {
	st, err := lstat(d.fd, base)
	if err == nil && t.marks != nil && isWhiteout(&st) {
		err = unix.ENOENT
	}
	return st, err
}

// attr returns the attributes of name, base in d, for which st was got.
func (t *tree) attr(d *dir, base string, name overlay.Name, st *unix.Stat_t) (overlay.Attr, error) {
	a := attrOf(st, t.source)
	if base == "." || !t.impure(d) {
		return a, nil
	}
	o, err := t.origin(d, base, name, st)
	a.Origin = o.ino
	a.Nlink = o.shownLinks(a.Nlink)
	return a, err
}

// origin returns the origin of name, base in d, which is st. That of a directory
// that is open is remembered.
func (t *tree) origin(d *dir, base string, name overlay.Name, st *unix.Stat_t) (origin, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && t.marks.extra.empty() {
		if self, _ := t.cache.get(name); self != nil {
			defer t.cache.put(self)
			return self.ownOrigin(t.marks)
		}
	}
	return t.marks.origin(d.fd, base, st.Ino)
}

// impure reports whether files in d may have an origin.
func (t *tree) impure(d *dir) bool {
	if t.marks == nil {
		return false
	}
	if p := d.purity.Load(); p != purityUnknown {
		return p == impure
	}
	found := pure
	if v, err := t.marks.get(d.fd, ".", markImpure); err != nil || v != nil {
		found = impure // after an error, too: then each file is asked
	}
	d.purity.CompareAndSwap(purityUnknown, found)
	return d.purity.Load() == impure
}

// Lstat implements overlay.Reader.
func (t *tree) Lstat(_ context.Context, name overlay.Name) (overlay.Attr, error) {
	d, base, err := t.parent(name)
	if err != nil {
		return overlay.Attr{}, fail("lstat", name, err)
	}
	defer t.cache.put(d)
	st, err := t.stat(d, base)
	if err != nil {
		return overlay.Attr{}, fail("lstat", name, err)
	}
	a, err := t.attr(d, base, name, &st)
	if err != nil {
		return overlay.Attr{}, fail("lstat", name, err)
	}
	return a, nil
}

// Readlink implements overlay.Reader.
func (t *tree) Readlink(_ context.Context, name overlay.Name) (string, error) {
	d, base, err := t.parent(name)
	if err != nil {
		return "", fail("readlink", name, err)
	}
	defer t.cache.put(d)
	for size := 256; ; size *= 4 {
		target := make([]byte, size)
		n, err := unix.Readlinkat(d.fd, base, target)
		if is(err, unix.EINVAL) {
			if _, err := t.stat(d, base); err != nil {
				return "", fail("readlink", name, err)
			}
		}
		if err != nil {
			return "", fail("readlink", name, err)
		}
		if n < size {
			return string(target[:n]), nil
		}
	}
}

// ReadDir implements overlay.Reader.
func (t *tree) ReadDir(_ context.Context, name overlay.Name) ([]overlay.Entry, error) {
	entries, _, err := t.list(name)
	if err != nil {
		return nil, fail("readdir", name, err)
	}
	return entries, nil
}

// list returns the entries of the directory name and the names of the whiteouts
// in it, each ascending.
func (t *tree) list(name overlay.Name) (entries []overlay.Entry, gone []string, err error) {
	d, err := t.dirOrAbsent(name)
	if err != nil {
		return nil, nil, err
	}
	defer t.cache.put(d)
	fd, err := t.openToList(d)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		return nil, nil, err
	}
	entries, err = readEntries(fd, uint64(st.Dev))
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b overlay.Entry) int { return strings.Compare(a.Name, b.Name) })
	return t.sift(d, &st, entries)
}

// openToList opens d itself for reading. A quiet tree keeps its access time where
// that is allowed.
func (t *tree) openToList(d *dir) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	if t.quiet {
		fd, err := t.open(d.fd, ".", flags|unix.O_NOATIME)
		if !is(err, unix.EPERM) {
			return fd, err
		}
	}
	return t.open(d.fd, ".", flags)
}

// dirOrAbsent is dir with the error that fits a name the layer does not show.
func (t *tree) dirOrAbsent(name overlay.Name) (*dir, error) {
	d, err := t.dir(name)
	if is(err, unix.ENOTDIR) && t.marks != nil {
		err = t.whyNotDir(name)
	}
	return d, err
}

// sift completes entries of the directory d and takes the whiteouts out. An
// entry that vanished meanwhile is left out.
func (t *tree) sift(d *dir, st *unix.Stat_t, entries []overlay.Entry) (shown []overlay.Entry, gone []string, err error) {
	shown = entries[:0]
	marked := t.impure(d)
	for _, e := range entries {
		if e.Type == 0 || (t.marks != nil && e.Type == overlay.TypeChar) {
			fst, err := lstat(d.fd, e.Name)
			switch {
			case is(err, unix.ENOENT):
				continue
			case err != nil:
				return nil, nil, err
			case t.marks != nil && isWhiteout(&fst):
				gone = append(gone, e.Name)
				continue
			}
			e.Type = fst.Mode & unix.S_IFMT
		}
		if marked {
			o, err := t.marks.origin(d.fd, e.Name, e.Ino)
			if is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			e.Origin = o.ino
		}
		shown = append(shown, e)
	}
	if t.marks != nil {
		gone = t.addGone(st.Ino, shown, gone)
	}
	return shown, gone, nil
}

// addGone adds the whiteouts that the mark file has for the directory ino.
func (t *tree) addGone(ino uint64, shown []overlay.Entry, gone []string) []string {
	extra := t.marks.extra.goneIn(ino)
	if extra == nil {
		return gone
	}
	for _, name := range extra {
		_, held := slices.BinarySearchFunc(shown, name, func(e overlay.Entry, name string) int { return strings.Compare(e.Name, name) })
		if !held {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return gone
}

// readEntries returns what the kernel lists of the open directory fd, except .
// and .., in its order.
func readEntries(fd int, dev uint64) ([]overlay.Entry, error) {
	var entries []overlay.Entry
	buf := make([]byte, 32<<10)
	for {
		var n int
		err := again(func() (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return entries, nil
		}
		if entries, err = parseDirents(buf[:n], dev, entries); err != nil {
			return nil, err
		}
	}
}

// describe returns err with what was being done to the layer's parts.
func describe(what, path string, err error) error {
	return fmt.Errorf("disklayer: %s %s: %w", what, path, err)
}

// Statfs implements overlay.Statfser.
func (t *tree) Statfs(context.Context) (overlay.Statfs, error) {
	var s unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(t.root, &s) }); err != nil {
		return overlay.Statfs{}, fail("statfs", overlay.Root, err)
	}
	return overlay.Statfs{
		Bsize:  uint32(s.Bsize),
		Blocks: s.Blocks,
		Bfree:  s.Bfree,
		Bavail: s.Bavail,
		Files:  s.Files,
		Ffree:  s.Ffree,
	}, nil
}
