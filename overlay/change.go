package overlay

import (
	"context"
	"errors"
	"syscall"
)

// inDir calls fn with the directory of name locked for a change of its entry
// name, and held by the upper. fn gets the directory. Where the upper alone
// has it and pure is not nil, that is called instead, and the directory is
// only kept from moving: there the upper's one step is ours. more are further
// directories to lock.
func (o *Overlay) inDir(ctx context.Context, op string, name Name, pure func() error, fn func(d *merged) error, more ...Name) error {
	dir := name.Dir()
	for range copyTries {
		d, err := o.stack.resolve(ctx, 0, dir)
		if err != nil {
			return about(op, name, err)
		}
		if o.stack.upper == nil {
			return PathError(op, name, syscall.EROFS)
		}
		if !d.inUpper(o.stack) {
			if err := o.copyUp(ctx, op, dir, true); err != nil {
				return about(op, name, err)
			}
			continue
		}
		alone := pure != nil && d.pure(o.stack)
		var unlock func()
		if alone {
			unlock = o.locks.stay(o.Segment(dir))
		} else {
			unlock = o.lock(append(more, dir)...)
		}
		// What was known of the directory has to hold now that it is locked.
		d, err = o.stack.resolve(ctx, 0, dir)
		switch {
		case err != nil:
		case !d.inUpper(o.stack), alone && !d.pure(o.stack):
			unlock()
			continue
		case alone:
			err = pure()
		default:
			err = fn(d)
		}
		unlock()
		return about(op, name, err)
	}
	return PathError(op, name, syscall.EBUSY)
}

// create calls make, which makes name in the upper, if there is no such file.
func (o *Overlay) create(ctx context.Context, op string, name Name, make func() error) error {
	if err := name.Check(op); err != nil {
		return err
	}
	if name == Root {
		return PathError(op, name, syscall.EEXIST)
	}
	return o.inDir(ctx, op, name, make, func(d *merged) error {
		switch _, err := o.stack.findIn(ctx, d, name.Base()); {
		case err == nil:
			return PathError(op, name, syscall.EEXIST)
		case !isErrno(err, syscall.ENOENT):
			return err
		}
		return make()
	})
}

// Mkdir implements Layer. A directory made beside lower ones is opaque, as in
// the kernel's overlayfs: what others put under its name into a lower layer
// later does not show in it, and nothing in it is looked for there.
func (o *Overlay) Mkdir(ctx context.Context, name Name, perm Perm) error {
	return o.create(ctx, "mkdir", name, func() error {
		defer o.stack.cache.kill(0, name)
		if err := o.stack.upper.Mkdir(ctx, name, perm); err != nil {
			return err
		}
		d, err := o.stack.resolve(ctx, 0, name.Dir())
		if err != nil || d.pure(o.stack) {
			return err
		}
		marks, err := o.stack.upper.Absence(ctx, name)
		if err != nil || marks.Opaque {
			return err // it took the place of a whiteout, and must not go
		}
		if err := o.stack.upper.SetOpaque(ctx, name, true); err != nil {
			return errors.Join(err, o.stack.upper.Remove(ctx, name))
		}
		return nil
	})
}

// Symlink implements Layer.
func (o *Overlay) Symlink(ctx context.Context, target string, name Name, perm Perm) error {
	return o.create(ctx, "symlink", name, func() error {
		return o.stack.upper.Symlink(ctx, target, name, perm)
	})
}

// Mknod implements Noder.
func (o *Overlay) Mknod(ctx context.Context, name Name, typ uint32, rdev uint64, perm Perm) error {
	return o.create(ctx, "mknod", name, func() error {
		n, ok := As[Noder](any(o.stack.upper))
		if !ok {
			return PathError("mknod", name, syscall.EPERM)
		}
		return n.Mknod(ctx, name, typ, rdev, perm)
	})
}

// Link implements Linker. A lower file is copied up first.
func (o *Overlay) Link(ctx context.Context, oldname, newname Name) error {
	h, err := o.find(ctx, "link", oldname)
	switch {
	case err != nil:
		return err
	case h.attr.IsDir():
		return PathError("link", oldname, syscall.EPERM)
	case o.Segment(oldname) != o.Segment(newname):
		return PathError("link", newname, syscall.EXDEV)
	}
	if _, err := o.find(ctx, "link", newname); err == nil {
		return PathError("link", newname, syscall.EEXIST)
	}
	if err := o.copyUp(ctx, "link", oldname, true); err != nil {
		return err
	}
	return o.create(ctx, "link", newname, func() error {
		l, ok := As[Linker](any(o.stack.upper))
		if !ok {
			return PathError("link", newname, syscall.EPERM)
		}
		return l.Link(ctx, oldname, newname)
	})
}

// Tmpfile implements Tmpfiler.
func (o *Overlay) Tmpfile(ctx context.Context, dir Name, perm Perm) (WriteHandle, error) {
	if h, err := o.find(ctx, "tmpfile", dir); err != nil {
		return nil, err
	} else if !h.attr.IsDir() {
		return nil, PathError("tmpfile", dir, syscall.ENOTDIR)
	}
	if err := o.copyUp(ctx, "tmpfile", dir, true); err != nil {
		return nil, err
	}
	t, ok := As[Tmpfiler](any(o.stack.upper))
	if !ok {
		return nil, PathError("tmpfile", dir, syscall.EOPNOTSUPP)
	}
	in, err := t.Tmpfile(ctx, dir, perm)
	if err != nil {
		return nil, about("tmpfile", dir, err)
	}
	return writeHandle{in, o.stack}, nil
}

// LinkHandle implements Tmpfiler.
func (o *Overlay) LinkHandle(ctx context.Context, h WriteHandle, newname Name) error {
	own, ok := h.(writeHandle)
	if !ok {
		return PathError("link", newname, syscall.EINVAL)
	}
	return o.create(ctx, "link", newname, func() error {
		t, ok := As[Tmpfiler](any(o.stack.upper))
		if !ok {
			return PathError("link", newname, syscall.EOPNOTSUPP)
		}
		return t.LinkHandle(ctx, own.WriteHandle, newname)
	})
}
