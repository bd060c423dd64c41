package overlay

import (
	"context"
	"slices"
	"syscall"
)

// LstatMarks implements Marker.
func (m *Mux) LstatMarks(ctx context.Context, name Name) (Attr, Absence, error) {
	part, inner := m.at(name)
	p := &m.parts[part]
	var a Attr
	var marks Absence
	var err error
	if p.marker != nil {
		a, marks, err = p.marker.LstatMarks(ctx, inner)
	} else {
		a, marks, err = lstatMarks(ctx, p.Upper, inner)
	}
	if m.onWay(part, name) {
		marks.Gone = false
		a, err = m.way(ctx, name, a, err)
	}
	return a, marks, about("lstat", name, err)
}

// Find implements Finder.
func (m *Mux) Find(ctx context.Context, name Name) (Attr, bool, error) {
	part, inner := m.at(name)
	p := &m.parts[part]
	if p.finder == nil || m.onWay(part, name) {
		a, marks, err := m.LstatMarks(ctx, name)
		return a, marks.Gone, err
	}
	a, gone, err := p.finder.Find(ctx, inner)
	return a, gone, about("lstat", name, err)
}

// lstatMarks is LstatMarks of a layer that is no Marker. It asks again for what
// came or went in between.
func lstatMarks(ctx context.Context, u Upper, name Name) (Attr, Absence, error) {
	for {
		marks, err := u.Absence(ctx, name)
		if err != nil {
			return Attr{}, Absence{}, err
		}
		a, err := u.Lstat(ctx, name)
		again, aerr := u.Absence(ctx, name)
		if aerr != nil {
			return Attr{}, Absence{}, aerr
		}
		if again == marks && !(err == nil && marks.Gone) {
			return a, marks, err
		}
	}
}

// Absence implements Whiteouter.
func (m *Mux) Absence(ctx context.Context, name Name) (Absence, error) {
	part, inner := m.at(name)
	marks, err := m.parts[part].Absence(ctx, inner)
	if m.onWay(part, name) {
		marks.Gone = false
	}
	return marks, about("lstat", name, err)
}

// Marks implements Whiteouter.
func (m *Mux) Marks(ctx context.Context, name Name) ([]string, error) {
	part, inner := m.at(name)
	all, err := m.parts[part].Marks(ctx, inner)
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
	own := func(names []string, part int) []string {
		return slices.DeleteFunc(names, func(base string) bool { return !m.owns(name.Join(base), part) })
	}
	all = own(all, part)
	if local {
		marks, err := m.parts[disk].Marks(ctx, name)
		if err != nil && !absent(err) {
			return nil, about("readdir", name, err)
		}
		all = append(all, own(marks, disk)...)
	}
	for _, base := range routed {
		if child := name.Join(base); !m.Pinned(child) {
			marks, err := m.Absence(ctx, child)
			if err != nil {
				return nil, err
			}
			if marks.Gone {
				all = append(all, base)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// Whiteout implements Upper.
func (m *Mux) Whiteout(ctx context.Context, name Name) error {
	p, inner, err := m.place(ctx, "remove", name, syscall.EBUSY)
	if err != nil {
		return err
	}
	if err := m.clearLocal(ctx, name); err != nil {
		return about("remove", name, err)
	}
	return about("remove", name, p.Whiteout(ctx, inner))
}

// clearLocal removes the empty directory that the disk holds for those names in
// the routed directory name that are kept local. ENOTEMPTY if it has any.
func (m *Mux) clearLocal(ctx context.Context, name Name) error {
	part, _ := m.at(name)
	if part == disk || !m.table.HoldsLocal(string(name)) {
		return nil
	}
	a, err := m.parts[disk].Lstat(ctx, name)
	if err == nil && a.IsDir() {
		err = m.parts[disk].Remove(ctx, name)
	}
	if absent(err) {
		return nil
	}
	return err
}

// SetOpaque implements Upper.
func (m *Mux) SetOpaque(ctx context.Context, name Name, opaque bool) error {
	p, inner, err := m.existing(ctx, "setxattr", name)
	if err != nil {
		return err
	}
	return about("setxattr", name, p.SetOpaque(ctx, inner, opaque))
}

// SetRedirect implements Redirecter. EXDEV where the segment cannot.
func (m *Mux) SetRedirect(ctx context.Context, name, target Name) error {
	part, inner := m.at(name)
	r, ok := As[Redirecter](any(m.parts[part].Upper))
	if !ok {
		return PathError("setxattr", name, syscall.EXDEV)
	}
	return about("setxattr", name, r.SetRedirect(ctx, inner, target))
}

// CopyUp implements Upper.
func (m *Mux) CopyUp(ctx context.Context, name Name, c Copy) error {
	p, inner, err := m.place(ctx, "copyup", name, syscall.EEXIST)
	if err != nil {
		return err
	}
	return about("copyup", name, p.CopyUp(ctx, inner, c))
}

// Indexed implements Indexer.
func (m *Mux) Indexed(origin uint64) bool {
	for _, p := range m.parts {
		if x, ok := As[Indexer](any(p.Upper)); ok && x.Indexed(origin) {
			return true
		}
	}
	return false
}

// LinkIndexed implements Indexer.
func (m *Mux) LinkIndexed(ctx context.Context, origin uint64, name Name) error {
	p, inner, err := m.place(ctx, "link", name, syscall.EEXIST)
	if err != nil {
		return err
	}
	x, ok := As[Indexer](any(p.Upper))
	if !ok {
		return PathError("link", name, syscall.ENOENT)
	}
	return about("link", name, x.LinkIndexed(ctx, origin, inner))
}

// DropIndexed implements Indexer.
func (m *Mux) DropIndexed(ctx context.Context, origin uint64) error {
	for _, p := range m.parts {
		if x, ok := As[Indexer](any(p.Upper)); ok && x.Indexed(origin) {
			return x.DropIndexed(ctx, origin)
		}
	}
	return nil
}
