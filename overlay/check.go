package overlay

import (
	"context"
	"errors"
	"fmt"
)

// Check looks through the tree of o and the layers it is made of, and returns
// every broken invariant, joined; nil if all hold:
//
//   - What a directory lists can be looked up, with the same type and number.
//   - No two files have one inode number, and no file has more names than
//     links.
//   - Whiteouts of the upper hide something, and its redirects lead somewhere;
//     where others may change the layer below, they need not.
//   - Each layer that is a Checker finds itself in order.
//
// The tree must not be changed meanwhile. Nothing is repaired.
func Check(ctx context.Context, o *Overlay) error {
	c := &checker{o: o, s: o.stack, numbers: make(map[uint64]*numbered)}
	for _, l := range c.s.layers {
		if own, ok := As[Checker](any(l.Reader)); ok {
			if err := own.Check(ctx); err != nil {
				c.errs = append(c.errs, fmt.Errorf("layer %q: %w", l.id, err))
			}
		}
	}
	c.dir(ctx, Root)
	for ino, n := range c.numbers {
		if !n.dir && n.names > n.links {
			c.broken(n.name, "has %d names with inode number %#x, and says it has %d", n.names, ino, n.links)
		}
	}
	return errors.Join(c.errs...)
}

// A checker is a Check that runs.
type checker struct {
	o       *Overlay
	s       *stack
	numbers map[uint64]*numbered
	errs    []error
}

// A numbered is what was seen of an inode number.
type numbered struct {
	name  Name // the first
	at    place
	dev   uint64 // in the layer
	ino   uint64
	names uint32
	links uint32
	dir   bool
}

// broken notes a broken invariant of name.
func (c *checker) broken(name Name, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%q %s", string(name), fmt.Sprintf(format, args...)))
}

// dir checks the directory name and all below it.
func (c *checker) dir(ctx context.Context, name Name) {
	entries, err := c.o.ReadDir(ctx, name)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	d, err := c.s.resolve(ctx, 0, name)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.marks(ctx, name, d)
	for i, e := range entries {
		child := name.Join(e.Name)
		if i > 0 && entries[i-1].Name >= e.Name {
			c.broken(child, "is listed after %q", entries[i-1].Name)
		}
		c.entry(ctx, child, e)
		if e.Type == TypeDir {
			c.dir(ctx, child)
		}
	}
}

// entry checks the entry e, which is name.
func (c *checker) entry(ctx context.Context, name Name, e Entry) {
	h, err := c.o.find(ctx, "lstat", name)
	if err != nil {
		c.broken(name, "is listed, but: %v", err)
		return
	}
	a := c.s.show(h.attr)
	if a.Type() != e.Type || a.Ino != e.Ino {
		c.broken(name, "is listed as type %o, inode number %#x, and is %o, %#x", e.Type, e.Ino, a.Type(), a.Ino)
	}
	n := c.numbers[a.Ino]
	if n == nil {
		c.numbers[a.Ino] = &numbered{name, h.place, h.attr.Dev, h.attr.Ino, 1, a.Nlink, a.IsDir()}
		return
	}
	n.names++
	if a.IsDir() || h.attr.Dev != n.dev || h.attr.Ino != n.ino {
		c.broken(name, "has inode number %#x, which %q has, too", a.Ino, string(n.name))
	}
}

// marks checks what the upper records in the directory d, which is name.
func (c *checker) marks(ctx context.Context, name Name, d *merged) {
	if !d.inUpper(c.s) {
		return
	}
	shared := false
	for _, p := range d.parts[1:] {
		shared = shared || p.source != Exclusive
	}
	gone, err := c.s.upper.Marks(ctx, name)
	if err != nil {
		c.errs = append(c.errs, err)
	}
	for _, base := range gone {
		if below, err := c.s.below(ctx, d, base); err != nil {
			c.errs = append(c.errs, err)
		} else if !below && !shared {
			c.broken(name.Join(base), "is recorded as gone, but nothing is below")
		}
	}
	marks, err := c.s.upper.Absence(ctx, name)
	if err != nil {
		c.errs = append(c.errs, err)
	}
	if marks.Redirect == "" || marks.Opaque || len(d.unsure) > 0 {
		return
	}
	switch _, err := c.s.resolve(ctx, 1, marks.Redirect); {
	case absent(err) && !c.shared():
		c.broken(name, "has its lower part at %q, where nothing is", string(marks.Redirect))
	case err != nil && !absent(err):
		c.errs = append(c.errs, err)
	}
}

// shared reports whether others may change any of the lowers.
func (c *checker) shared() bool {
	for _, p := range c.s.roots[1].parts {
		if p.source != Exclusive {
			return true
		}
	}
	return false
}
