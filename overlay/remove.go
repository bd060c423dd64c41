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
	if _, err := o.findOne(ctx, "remove", name); err != nil {
		return err
	}
	return o.inDir(ctx, "remove", name, nil, func(d *merged) error {
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
		if empty, err := o.stack.empty(ctx, name); err != nil {
			return err
		} else if !empty {
			return PathError("remove", name, syscall.ENOTEMPTY)
		}
		defer o.stack.cache.kill(0, name)
	}
	below, err := o.stack.below(ctx, d, name.Base())
	if err != nil {
		return err
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

// empty reports whether the directory dir shows no entry.
func (s *stack) empty(ctx context.Context, dir Name) (bool, error) {
	d, err := s.resolve(ctx, 0, dir)
	if err != nil {
		return false, err
	}
	entries, err := s.union(ctx, d)
	return len(entries) == 0, err
}
