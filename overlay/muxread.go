package overlay

import (
	"context"
	"slices"
	"strings"
	"syscall"
)

// Lstat implements Reader.
func (m *Mux) Lstat(ctx context.Context, name Name) (Attr, error) {
	part, inner := m.at(name)
	a, err := m.parts[part].Lstat(ctx, inner)
	if m.onWay(part, name) {
		return m.way(ctx, name, a, err)
	}
	return a, about("lstat", name, err)
}

// way returns the attributes of name, which is on the way to a route, when the
// disk answered a and err.
func (m *Mux) way(ctx context.Context, name Name, a Attr, err error) (Attr, error) {
	if absent(err) || err == nil && !a.IsDir() {
		a, err = m.madeUp(ctx)
	}
	return wayAttr(a, name), about("lstat", name, err)
}

// ReadDir implements Reader.
func (m *Mux) ReadDir(ctx context.Context, name Name) ([]Entry, error) {
	part, inner := m.at(name)
	all, err := m.parts[part].ReadDir(ctx, inner)
	if m.onWay(part, name) && absent(err) {
		err = nil
	}
	if err != nil {
		return nil, about("readdir", name, err)
	}
	routed := m.table.Inner(string(name))
	local := part != disk && m.table.HoldsLocal(string(name))
	if len(routed) == 0 && !local {
		return all, nil
	}
	all = m.own(all, name, part)
	if local {
		entries, err := m.parts[disk].ReadDir(ctx, name)
		if err != nil && !absent(err) {
			return nil, about("readdir", name, err)
		}
		all = append(all, m.own(entries, name, disk)...)
	}
	for _, base := range routed {
		a, err := m.Lstat(ctx, name.Join(base))
		switch {
		case err == nil:
			all = append(all, Entry{Name: base, Type: a.Type(), Dev: a.Dev, Ino: a.Ino, Origin: a.Origin})
		case !isErrno(err, syscall.ENOENT):
			return nil, about("readdir", name, err)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// own returns those entries of the directory dir that belong to part, but for
// those that routes make.
func (m *Mux) own(entries []Entry, dir Name, part int) []Entry {
	return slices.DeleteFunc(entries, func(e Entry) bool { return !m.owns(dir.Join(e.Name), part) })
}

// owns reports whether name belongs to part and is not made by a route.
func (m *Mux) owns(name Name, part int) bool {
	p, _ := m.at(name)
	return p == part && !m.table.Holds(string(name))
}

// Readlink implements Reader.
func (m *Mux) Readlink(ctx context.Context, name Name) (string, error) {
	if m.Pinned(name) {
		return "", PathError("readlink", name, syscall.EINVAL)
	}
	part, inner := m.at(name)
	target, err := m.parts[part].Readlink(ctx, inner)
	return target, about("readlink", name, err)
}

// Open implements Reader.
func (m *Mux) Open(ctx context.Context, name Name) (Handle, error) {
	if m.Pinned(name) {
		return nil, PathError("open", name, syscall.EISDIR)
	}
	part, inner := m.at(name)
	h, err := m.parts[part].Open(ctx, inner)
	return h, about("open", name, err)
}

// Getxattr implements Xattrer.
func (m *Mux) Getxattr(ctx context.Context, name Name, attr string) ([]byte, error) {
	part, inner := m.at(name)
	x, ok := As[Xattrer](any(m.parts[part].Upper))
	if !ok {
		return nil, PathError("getxattr", name, syscall.ENOTSUP)
	}
	value, err := x.Getxattr(ctx, inner, attr)
	if m.onWay(part, name) && absent(err) {
		err = syscall.ENODATA
	}
	return value, about("getxattr", name, err)
}

// Listxattr implements Xattrer.
func (m *Mux) Listxattr(ctx context.Context, name Name) ([]string, error) {
	part, inner := m.at(name)
	x, ok := As[Xattrer](any(m.parts[part].Upper))
	if !ok {
		return nil, nil
	}
	names, err := x.Listxattr(ctx, inner)
	if m.onWay(part, name) && absent(err) {
		err = nil
	}
	return names, about("listxattr", name, err)
}

// Watch implements Watcher. Files on the disk change through this mount alone
// and are not watched.
func (m *Mux) Watch(ctx context.Context, name Name, fn func(child string)) (func(), error) {
	var stops []func()
	stop := func() {
		for _, stop := range stops {
			stop()
		}
	}
	add := func(part int, inner Name, fn func(string)) error {
		w, ok := As[Watcher](any(m.parts[part].Upper))
		if !ok {
			return PathError("watch", name, syscall.ENOTSUP)
		}
		stop, err := w.Watch(ctx, inner, fn)
		if err == nil {
			stops = append(stops, stop)
		}
		return err
	}
	var err error
	if part, inner := m.at(name); part != disk {
		err = add(part, inner, fn)
	}
	for _, base := range m.table.Inner(string(name)) {
		part, inner := m.at(name.Join(base))
		if err != nil || part == disk || inner == Root {
			continue
		}
		dir, file := inner.Split()
		err = add(part, dir, func(child string) {
			if child == file || child == "" {
				fn(base)
			}
		})
	}
	if err != nil {
		stop()
		return nil, about("watch", name, err)
	}
	return stop, nil
}
