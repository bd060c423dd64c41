package overlay

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// OpenFile implements Layer.
func (m *Mux) OpenFile(ctx context.Context, name Name, flag OpenFlag, perm Perm) (WriteHandle, error) {
	part, inner := m.at(name)
	switch {
	case m.Pinned(name) && flag&Create != 0 && flag&Excl != 0:
		return nil, PathError("open", name, syscall.EEXIST)
	case m.Pinned(name):
		return nil, PathError("open", name, syscall.EISDIR)
	case part == disk && flag&Create != 0:
		if err := m.ensure(ctx, name.Dir()); err != nil {
			return nil, about("open", name, err)
		}
	}
	h, err := m.parts[part].OpenFile(ctx, inner, flag, perm)
	return h, about("open", name, err)
}

// Mkdir implements Layer.
func (m *Mux) Mkdir(ctx context.Context, name Name, perm Perm) error {
	p, inner, err := m.place(ctx, "mkdir", name, syscall.EEXIST)
	if err != nil {
		return err
	}
	return about("mkdir", name, p.Mkdir(ctx, inner, perm))
}

// Symlink implements Layer.
func (m *Mux) Symlink(ctx context.Context, target string, name Name, perm Perm) error {
	p, inner, err := m.place(ctx, "symlink", name, syscall.EEXIST)
	if err != nil {
		return err
	}
	return about("symlink", name, p.Symlink(ctx, target, inner, perm))
}

// Mknod implements Noder.
func (m *Mux) Mknod(ctx context.Context, name Name, typ uint32, rdev uint64, perm Perm) error {
	p, inner, err := m.place(ctx, "mknod", name, syscall.EEXIST)
	if err != nil {
		return err
	}
	n, ok := As[Noder](any(p.Upper))
	if !ok {
		return PathError("mknod", name, syscall.EPERM)
	}
	return about("mknod", name, n.Mknod(ctx, inner, typ, rdev, perm))
}

// Link implements Linker.
func (m *Mux) Link(ctx context.Context, oldname, newname Name) error {
	if m.Pinned(oldname) {
		return PathError("link", oldname, syscall.EPERM)
	}
	from, oldinner := m.at(oldname)
	if to, _ := m.at(newname); to != from {
		return PathError("link", newname, syscall.EXDEV)
	}
	p, newinner, err := m.place(ctx, "link", newname, syscall.EEXIST)
	if err != nil {
		return err
	}
	l, ok := As[Linker](any(p.Upper))
	if !ok {
		return PathError("link", newname, syscall.EPERM)
	}
	return about("link", newname, l.Link(ctx, oldinner, newinner))
}

// Remove implements Layer.
func (m *Mux) Remove(ctx context.Context, name Name) error {
	if m.Pinned(name) {
		return PathError("remove", name, syscall.EBUSY)
	}
	if err := m.clearLocal(ctx, name); err != nil {
		return about("remove", name, err)
	}
	part, inner := m.at(name)
	return about("remove", name, m.parts[part].Remove(ctx, inner))
}

// Rename implements Layer. EXDEV between segments, and for a directory in which
// files may be on the disk though it is not.
func (m *Mux) Rename(ctx context.Context, oldname, newname Name, flag RenameFlag) error {
	if m.Pinned(oldname) || m.Pinned(newname) {
		return PathError("rename", oldname, syscall.EBUSY)
	}
	from, oldinner := m.at(oldname)
	if to, _ := m.at(newname); to != from {
		return PathError("rename", newname, syscall.EXDEV)
	}
	p, newinner, err := m.place(ctx, "rename", newname, syscall.EBUSY)
	if err != nil {
		return err
	}
	if from != disk && (m.table.HoldsLocal(string(oldname)) || m.table.HoldsLocal(string(newname))) {
		for _, inner := range []Name{oldinner, newinner} {
			a, err := p.Lstat(ctx, inner)
			if err == nil && a.IsDir() {
				return PathError("rename", newname, syscall.EXDEV)
			}
			if err != nil && !absent(err) {
				return about("rename", oldname, err)
			}
		}
	}
	return about("rename", oldname, p.Rename(ctx, oldinner, newinner, flag))
}

// SetAttr implements Layer.
func (m *Mux) SetAttr(ctx context.Context, name Name, set SetAttr) (Attr, error) {
	p, inner, err := m.existing(ctx, "setattr", name)
	if err != nil {
		return Attr{}, err
	}
	a, err := p.SetAttr(ctx, inner, set)
	if part, _ := m.at(name); m.onWay(part, name) {
		a = wayAttr(a, name)
	}
	return a, about("setattr", name, err)
}

// Setxattr implements XattrSetter.
func (m *Mux) Setxattr(ctx context.Context, name Name, attr string, value []byte, flags int) error {
	p, inner, err := m.existing(ctx, "setxattr", name)
	if err != nil {
		return err
	}
	x, ok := As[XattrSetter](any(p.Upper))
	if !ok {
		return PathError("setxattr", name, syscall.ENOTSUP)
	}
	return about("setxattr", name, x.Setxattr(ctx, inner, attr, value, flags))
}

// Removexattr implements XattrSetter.
func (m *Mux) Removexattr(ctx context.Context, name Name, attr string) error {
	p, inner, err := m.existing(ctx, "removexattr", name)
	if err != nil {
		return err
	}
	x, ok := As[XattrSetter](any(p.Upper))
	if !ok {
		return PathError("removexattr", name, syscall.ENOTSUP)
	}
	return about("removexattr", name, x.Removexattr(ctx, inner, attr))
}

// A muxTmp is a file without a name and the part it is in.
type muxTmp struct {
	WriteHandle
	part int
}

// Unwrap returns the layer's handle, for its abilities.
func (h muxTmp) Unwrap() any { return h.WriteHandle }

// Tmpfile implements Tmpfiler.
func (m *Mux) Tmpfile(ctx context.Context, dir Name, perm Perm) (WriteHandle, error) {
	p, inner, err := m.existing(ctx, "tmpfile", dir)
	if err != nil {
		return nil, err
	}
	t, ok := As[Tmpfiler](any(p.Upper))
	if !ok {
		return nil, PathError("tmpfile", dir, syscall.EOPNOTSUPP)
	}
	h, err := t.Tmpfile(ctx, inner, perm)
	if err != nil {
		return nil, about("tmpfile", dir, err)
	}
	part, _ := m.at(dir)
	return muxTmp{h, part}, nil
}

// LinkHandle implements Tmpfiler.
func (m *Mux) LinkHandle(ctx context.Context, h WriteHandle, newname Name) error {
	own, ok := h.(muxTmp)
	if !ok {
		return PathError("link", newname, syscall.EINVAL)
	}
	if to, _ := m.at(newname); to != own.part {
		return PathError("link", newname, syscall.EXDEV)
	}
	p, inner, err := m.place(ctx, "link", newname, syscall.EEXIST)
	if err != nil {
		return err
	}
	t, ok := As[Tmpfiler](any(p.Upper))
	if !ok {
		return PathError("link", newname, syscall.EOPNOTSUPP)
	}
	return about("link", newname, t.LinkHandle(ctx, own.WriteHandle, inner))
}

// Statfs implements Statfser: the space of the disk.
func (m *Mux) Statfs(ctx context.Context) (Statfs, error) {
	s, ok := As[Statfser](any(m.parts[disk].Upper))
	if !ok {
		return Statfs{}, PathError("statfs", Root, syscall.ENOSYS)
	}
	return s.Statfs(ctx)
}

// SyncAll implements Syncer: all parts, whatever one of them says.
func (m *Mux) SyncAll(ctx context.Context) error {
	var errs []error
	for _, p := range m.parts {
		if s, ok := As[Syncer](any(p.Upper)); ok {
			errs = append(errs, s.SyncAll(ctx))
		}
	}
	return errors.Join(errs...)
}

// Recover implements Recoverer.
func (m *Mux) Recover(ctx context.Context, open Origins) ([]Name, error) {
	var damaged []Name
	var errs []error
	for i, p := range m.parts {
		r, ok := As[Recoverer](any(p.Upper))
		if !ok {
			continue
		}
		names, err := r.Recover(ctx, open)
		errs = append(errs, err)
		for _, name := range names {
			damaged = append(damaged, m.outer(i, name))
		}
	}
	return damaged, errors.Join(errs...)
}

// Check implements Checker: all parts that can be checked.
func (m *Mux) Check(ctx context.Context) error {
	var errs []error
	for _, p := range m.parts {
		c, ok := As[Checker](any(p.Upper))
		if !ok {
			continue
		}
		if err := c.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("segment %q: %w", p.segment, err))
		}
	}
	return errors.Join(errs...)
}
