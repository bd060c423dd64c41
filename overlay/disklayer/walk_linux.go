package disklayer

import (
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A visit is a file that walk met.
type visit struct {
	name overlay.Name
	dir  *dir
	base string
	st   unix.Stat_t
}

func (v *visit) isDir() bool     { return v.st.Mode&unix.S_IFMT == unix.S_IFDIR }
func (v *visit) isRegular() bool { return v.st.Mode&unix.S_IFMT == unix.S_IFREG }

// walk calls fn for each file of the layer below the directory name, whiteouts
// among them, directories before what is in them.
func (t *tree) walk(name overlay.Name, fn func(v *visit) error) error {
	below, err := t.walkOne(name, fn)
	if err != nil {
		return err
	}
	for _, sub := range below {
		if err := t.walk(sub, fn); err != nil {
			return err
		}
	}
	return nil
}

// walkOne calls fn for the files in the directory name and returns those that
// are directories.
func (t *tree) walkOne(name overlay.Name, fn func(v *visit) error) (below []overlay.Name, err error) {
	d, err := t.dir(name)
	if err != nil {
		return nil, err
	}
	defer t.cache.put(d)
	fd, err := t.open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	entries, err := readEntries(fd, 0)
	unix.Close(fd)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		st, err := lstat(d.fd, e.Name)
		if err != nil {
			return nil, err
		}
		v := &visit{name: name.Join(e.Name), dir: d, base: e.Name, st: st}
		if err := fn(v); err != nil {
			return nil, err
		}
		if v.isDir() {
			below = append(below, v.name)
		}
	}
	return below, nil
}
