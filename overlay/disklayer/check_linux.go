package disklayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Check implements overlay.Checker.
func (u *Upper) Check(ctx context.Context) error {
	c := &checker{u: u, ctx: ctx, names: make(map[uint64][]overlay.Name), inos: make(map[uint64]bool)}
	if err := u.walk(overlay.Root, c.visit); err != nil {
		return fail("check", overlay.Root, err)
	}
	if err := c.index(); err != nil {
		return fail("check", overlay.Root, err)
	}
	c.tables()
	if err := c.work(); err != nil {
		return fail("check", overlay.Root, err)
	}
	return errors.Join(c.broken...)
}

// A checker is a walk that looks for broken invariants.
type checker struct {
	u      *Upper
	ctx    context.Context
	names  map[uint64][]overlay.Name // of files with several links
	inos   map[uint64]bool           // of all files
	broken []error
}

func (c *checker) report(format string, args ...any) {
	c.broken = append(c.broken, fmt.Errorf("disklayer: "+format, args...))
}

// visit looks at one file.
func (c *checker) visit(v *visit) error {
	if c.ctx.Err() != nil {
		return unix.EINTR
	}
	c.inos[v.st.Ino] = true
	if isWhiteout(&v.st) {
		return nil
	}
	if !v.isDir() && v.st.Nlink > 1 {
		c.names[v.st.Ino] = append(c.names[v.st.Ino], v.name)
	}
	o, err := c.u.marks.origin(v.dir.fd, v.base, v.st.Ino)
	if err != nil {
		return err
	}
	if !o.empty() && !c.u.impure(v.dir) {
		c.report("%q has an origin in a directory that is not marked as impure", v.name)
	}
	if v.isDir() {
		if _, err := c.u.absence(v.name); err != nil {
			c.report("%q has a redirect that is no name", v.name)
		}
	}
	c.copyMark(v, o)
	return nil
}

// copyMark looks at the mark of what may be a pending copy.
func (c *checker) copyMark(v *visit, o origin) {
	switch {
	case o.bad:
		c.report("%q has a mark %s that cannot be read", v.name, markOrigin)
	case !o.pending:
	case v.st.Size < o.copy.size:
		c.report("%q is a copy with %d of %d bytes", v.name, v.st.Size, o.copy.size)
	case c.u.pending.find(v.st.Ino) == nil:
		c.report("%q is marked as a pending copy but is not known as one", v.name)
	}
}

// index compares the index with the files in it.
func (c *checker) index() error {
	for ino := range c.u.links.known {
		entry := indexEntry(ino)
		st, err := lstat(c.u.links.fd, entry)
		if err != nil {
			return err
		}
		c.inos[st.Ino] = true
		o, err := c.u.marks.origin(c.u.links.fd, entry, st.Ino)
		if err != nil {
			return err
		}
		names := len(c.names[st.Ino])
		switch {
		case o.ino != ino || !o.indexed:
			c.report("index entry %s is of a file with origin %x", entry, o.ino)
		case int(st.Nlink) != names+1:
			c.report("index entry %s has %d links, %d names", entry, st.Nlink, names)
		case int64(st.Nlink)+int64(o.links) < int64(names):
			c.report("index entry %s shows %d links, has %d names", entry, int64(st.Nlink)+int64(o.links), names)
		}
		delete(c.names, st.Ino)
		c.sameNames(st.Ino, names)
	}
	return nil
}

// sameNames compares the table of names with what the walk found.
func (c *checker) sameNames(ino uint64, found int) {
	if known := c.u.names.of(ino); len(known) != found {
		c.report("inode %d is known by %d names, has %d", ino, len(known), found)
	}
}

// tables compares the tables in memory and the mark file with the walk.
func (c *checker) tables() {
	for ino, found := range c.names {
		slices.Sort(found)
		if known := c.u.names.of(ino); !slices.Equal(known, found) {
			c.report("inode %d is known as %q, has the names %q", ino, known, found)
		}
	}
	root, err := fstat(c.u.root)
	if err == nil {
		c.inos[root.Ino] = true
	}
	for _, ino := range c.u.marks.extra.inodes() {
		if !c.inos[ino] {
			c.report("the mark file has marks of inode %d, which is not there", ino)
		}
	}
}

// work reports what is left in the work directory.
func (c *checker) work() error {
	fd, err := openat(c.u.work, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	entries, err := readEntries(fd, 0)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name != whiteName && !strings.HasPrefix(e.Name, workPrefix) {
			c.report("%q is left in the work directory", e.Name)
		}
	}
	return nil
}
