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
		if !h.top {
			if err := o.copyUp(ctx, "open", name, flag&Truncate == 0); err != nil {
				return nil, err
			}
		}
		in, err := o.stack.upper.OpenFile(ctx, name, flag, Perm{})
		if err == nil {
			return writeHandle{in, o.stack}, nil
		}
		if !absent(err) { // else it went in between
			return nil, about("open", name, err)
		}
	}
	return nil, PathError("open", name, syscall.EBUSY)
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
		open := func() (err error) {
			in, err = o.stack.upper.OpenFile(ctx, name, flag, perm)
			return err
		}
		err := o.inDir(ctx, "open", name, open, func(d *merged) error {
			h, err := o.stack.findIn(ctx, d, name.Base())
			switch {
			case isErrno(err, syscall.ENOENT), err == nil && h.top:
				return open()
			case err != nil:
				return err
			case flag&Excl != 0:
				return PathError("open", name, syscall.EEXIST)
			}
			exists = true
			return nil
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
