package overlay

import (
	"context"
	"syscall"
)

// Remove implements Layer. A name that a lower has is whited out, all others
// leave nothing behind.
func (o *Overlay) Remove(ctx context.Context, name Name) error {
	switch {
	case name == Root, o.Pinned(name):
		return PathError("remove", name, syscall.EBUSY)
	case o.stack.upper == nil:
		return PathError("remove", name, syscall.EROFS)
	}
	// A directory is not copied up for a name that it does not have.
	d, err := o.stack.resolve(ctx, 0, name.Dir())
	if err == nil && !d.inUpper(o.stack) {
		_, err = o.findOne(ctx, "remove", name)
	}
	if err != nil {
		return about("remove", name, err)
	}
	return o.inDir(ctx, "remove", name, false, func(d *merged) error {
		return o.removeLocked(ctx, d, name)
	}, name)
}

// removeLocked removes name, the directory of which is d.
//
// Preconditions: the locks of d and of the directory name are held.
func (o *Overlay) removeLocked(ctx context.Context, d *merged, name Name) error {
	h, err := o.stack.findIn(ctx, d, name.Base())
	if err != nil {
		return err
	}
	if h.attr.IsDir() {
		if err := o.stack.mustBeEmpty(ctx, name); err != nil {
			return err
		}
		defer o.stack.cache.kill(0, name)
	}
	below := !h.top
	if h.top {
		if below, err = o.stack.below(ctx, d, name.Base()); err != nil {
			return err
		}
	}
	if !below {
		return o.stack.upper.Remove(ctx, name)
	}
	if err := o.stack.upper.Whiteout(ctx, name); err != nil {
		return err
	}
	return o.dropIndexed(ctx, name, h)
}

// dropIndexed tells the index that h, which was whited out at name, is gone.
func (o *Overlay) dropIndexed(ctx context.Context, name Name, h hit) error {
	if h.top || h.attr.IsDir() || h.attr.Nlink < 2 {
		return nil
	}
	x, ok := o.stack.indexer(name)
	ino := o.stack.show(h.attr).Ino
	if !ok || !x.Indexed(ino) {
		return nil
	}
	return x.DropIndexed(ctx, ino)
}

// mustBeEmpty returns ENOTEMPTY if the directory dir shows an entry, but for one
// that the upper alone has: the upper looks itself before it takes it away.
func (s *stack) mustBeEmpty(ctx context.Context, dir Name) error {
	d, err := s.resolve(ctx, 0, dir)
	if err != nil || d.pure(s) {
		return err
	}
	entries, err := s.union(ctx, d)
	if err == nil && len(entries) > 0 {
		err = PathError("remove", dir, syscall.ENOTEMPTY)
	}
	return err
}
