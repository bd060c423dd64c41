package overlay

import (
	"context"
	"errors"
	"syscall"
)

// inDir calls fn with the directory of name locked for a change of its entry
// name, and held by the upper. fn gets the directory. With alone a directory
// that the upper alone has is only kept from moving: there the upper's one step
// is all there is to the change. more are further directories to lock.
func (o *Overlay) inDir(ctx context.Context, op string, name Name, alone bool, fn func(d *merged) error, more ...Name) error {
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
		pure := alone && d.pure(o.stack)
		var unlock func()
		if pure {
			unlock = o.locks.stay(o.Segment(dir))
		} else {
			unlock = o.lock(append(more, dir)...)
		}
		// What was known of the directory has to hold now that it is locked.
		d, err = o.stack.resolve(ctx, 0, dir)
		switch {
		case err != nil:
		case !d.inUpper(o.stack), alone && pure != d.pure(o.stack):
			unlock()
			continue
		default:
			err = fn(d)
		}
		unlock()
		return about(op, name, err)
	}
	return PathError(op, name, syscall.EBUSY)
}

// create calls make, which makes name in the upper, if there is no such file.
// make gets the directory of name, and whether name takes the place of a
// whiteout that hides a lower file. The upper itself looks whether it has name.
func (o *Overlay) create(ctx context.Context, op string, name Name, make func(d *merged, over bool) error) error {
	if err := name.Check(op); err != nil {
		return err
	}
	if name == Root {
		return PathError(op, name, syscall.EEXIST)
	}
	return o.inDir(ctx, op, name, true, func(d *merged) error {
		below, err := o.stack.below(ctx, d, name.Base())
		if err != nil {
			return err
		}
		if below {
			switch _, err := o.stack.findIn(ctx, d, name.Base()); {
			case err == nil:
				return PathError(op, name, syscall.EEXIST)
			case !isErrno(err, syscall.ENOENT):
				return err
			}
		}
		return make(d, below)
	})
}

// Mkdir implements Layer. A directory made beside lower ones is opaque, as in
// the kernel's overlayfs: what others put under its name into a lower layer
// later does not show in it, and nothing in it is looked for there.
func (o *Overlay) Mkdir(ctx context.Context, name Name, perm Perm) error {
	return o.create(ctx, "mkdir", name, func(d *merged, over bool) error {
		s := o.stack
		v := o.locks.version(o.Segment(d.name), d.name)
		err := s.upper.Mkdir(ctx, name, perm)
		s.cache.kill(0, name)
		if err != nil {
			return err
		}
		if d.pure(s) { // others may change d: only what nobody did may be remembered
			s.born(d, name, func() bool { return o.locks.unchanged(v) })
			return nil
		}
		if err := o.hideBelow(ctx, name, over); err != nil {
			return err
		}
		s.born(d, name, func() bool { return true })
		return nil
	})
}

// hideBelow makes the new directory name opaque, or removes it. over says that
// it may be so because it took the place of a whiteout.
func (o *Overlay) hideBelow(ctx context.Context, name Name, over bool) error {
	if over {
		marks, err := o.stack.upper.Absence(ctx, name)
		if err != nil || marks.Opaque {
			return err // what took the place of a whiteout must not go
		}
	}
	if err := o.stack.upper.SetOpaque(ctx, name, true); err != nil {
		return errors.Join(err, o.stack.upper.Remove(ctx, name))
	}
	return nil
}

// born remembers that the upper alone has the new directory name, which is in d.
// current is as for cache.put.
func (s *stack) born(d *merged, name Name, current func() bool) {
	up := d.parts[0]
	if up.source == Store || s.o.Segment(name) != s.o.Segment(d.name) {
		return
	}
	parts := []part{{place{0, name}, up.source}}
	s.cache.put(0, name, &merged{name: name, parent: d, parts: parts}, current)
}

// Symlink implements Layer.
func (o *Overlay) Symlink(ctx context.Context, target string, name Name, perm Perm) error {
	return o.create(ctx, "symlink", name, func(*merged, bool) error {
		return o.stack.upper.Symlink(ctx, target, name, perm)
	})
}

// Mknod implements Noder.
func (o *Overlay) Mknod(ctx context.Context, name Name, typ uint32, rdev uint64, perm Perm) error {
	return o.create(ctx, "mknod", name, func(*merged, bool) error {
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
	if err := o.copyUpHit(ctx, "link", oldname, h, true); err != nil {
		return err
	}
	return o.create(ctx, "link", newname, func(*merged, bool) error {
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
	return o.create(ctx, "link", newname, func(*merged, bool) error {
		t, ok := As[Tmpfiler](any(o.stack.upper))
		if !ok {
			return PathError("link", newname, syscall.EOPNOTSUPP)
		}
		return t.LinkHandle(ctx, own.WriteHandle, newname)
	})
}
