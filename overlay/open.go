package overlay

import (
	"context"
	"syscall"
)

// OpenFile implements Layer. A lower file is copied up, without its data if it
// is truncated.
func (o *Overlay) OpenFile(ctx context.Context, name Name, flag OpenFlag, perm Perm) (WriteHandle, error) {
	if flag&Create != 0 {
		return o.openCreate(ctx, name, flag, perm)
	}
	return o.openExisting(ctx, name, flag)
}

// openExisting is OpenFile of a file that is there.
func (o *Overlay) openExisting(ctx context.Context, name Name, flag OpenFlag) (WriteHandle, error) {
	flag &^= Create | Excl
	if name != Root && o.holds(ctx, name.Dir()) {
		if in, err := o.openTop(ctx, name, flag); !absent(err) {
			return in, about("open", name, err)
		}
	}
	for range copyTries {
		h, err := o.find(ctx, "open", name)
		switch {
		case err != nil:
			return nil, err
		case h.attr.IsDir():
			return nil, PathError("open", name, syscall.EISDIR)
		case !h.attr.IsRegular():
			return nil, PathError("open", name, syscall.EINVAL)
		}
		if err := o.copyUpHit(ctx, "open", name, h, flag&Truncate == 0); err != nil {
			return nil, err
		}
		if in, err := o.openTop(ctx, name, flag); !absent(err) { // else it went in between
			return in, about("open", name, err)
		}
	}
	return nil, PathError("open", name, syscall.EBUSY)
}

// openTop opens the file name of the upper; absent if it has none. It is what
// the tree shows.
func (o *Overlay) openTop(ctx context.Context, name Name, flag OpenFlag) (WriteHandle, error) {
	in, err := o.stack.upper.OpenFile(ctx, name, flag, Perm{})
	if err != nil {
		return nil, err
	}
	return writeHandle{in, o.stack}, nil
}

// openCreate is OpenFile of a file that is made if it is not there.
func (o *Overlay) openCreate(ctx context.Context, name Name, flag OpenFlag, perm Perm) (WriteHandle, error) {
	if err := name.Check("open"); err != nil {
		return nil, err
	}
	if name == Root {
		return nil, PathError("open", name, syscall.EISDIR)
	}
	for range copyTries {
		var in WriteHandle
		exists := false
		err := o.inDir(ctx, "open", name, true, func(d *merged) (err error) {
			if exists, err = o.lowerShown(ctx, d, name.Base()); err != nil {
				return err
			}
			if exists && flag&Excl != 0 {
				return PathError("open", name, syscall.EEXIST)
			}
			if !exists {
				in, err = o.stack.upper.OpenFile(ctx, name, flag, perm)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if !exists {
			return writeHandle{in, o.stack}, nil
		}
		wh, err := o.openExisting(ctx, name, flag)
		if !absent(err) { // else it went in between
			return wh, err
		}
	}
	return nil, PathError("open", name, syscall.EBUSY)
}

// lowerShown reports whether base in the directory d, which the upper has, is a
// file of a lower.
func (o *Overlay) lowerShown(ctx context.Context, d *merged, base string) (bool, error) {
	if below, err := o.stack.below(ctx, d, base); err != nil || !below {
		return false, err
	}
	h, err := o.stack.findIn(ctx, d, base)
	if isErrno(err, syscall.ENOENT) {
		return false, nil
	}
	return err == nil && !h.top, err
}
