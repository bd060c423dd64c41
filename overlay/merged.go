package overlay

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
)

// A part is a directory of one layer.
type part struct {
	place
	source Source
}

// A merged is a directory of the tree: the directories of the layers that it
// shows together. It is immutable but for names and dead.
type merged struct {
	name  Name
	parts []part // top first; never empty
	// unsure are the places where a layer that others may change had no
	// directory, though it has the parent. If one appears there, the merged
	// and all below it are out of date.
	unsure []place
	// below is the directory's name in the tree of the lowers; "" if none of
	// it can be there: it is new, or opaque.
	below Name

	names frozenNames

	// A merged is valid while neither it nor an ancestor is dead.
	parent *merged // nil for a root
	dead   atomic.Bool
}

// valid reports whether m is what the cache may answer.
func (m *merged) valid() bool {
	for ; m != nil; m = m.parent {
		if m.dead.Load() {
			return false
		}
	}
	return true
}

// inUpper reports whether the upper of s holds a part of m.
func (m *merged) inUpper(s *stack) bool {
	return s.upper != nil && len(m.parts) > 0 && m.parts[0].layer == 0
}

// pure reports whether the upper of s alone holds m.
func (m *merged) pure(s *stack) bool { return m.inUpper(s) && len(m.parts) == 1 }

// resolve returns the directory dir of the tree of the layers from base on,
// which is 0 for the whole tree. ENOENT, ENOTDIR.
func (s *stack) resolve(ctx context.Context, base int, dir Name) (*merged, error) {
	if dir == Root {
		return s.roots[base], nil
	}
	if m := s.cache.get(base, dir); m != nil {
		if ok, err := s.current(ctx, m); ok || err != nil {
			return m, err
		}
	}
	parent, err := s.resolve(ctx, base, dir.Dir())
	if err != nil {
		return nil, err
	}
	v := s.o.locks.version(s.o.Segment(dir.Dir()), dir.Dir())
	m, err := s.merge(ctx, base, parent, dir)
	if err != nil {
		return nil, err
	}
	// What another daemon may make opaque or move cannot be known for later.
	if !slices.ContainsFunc(m.parts, func(p part) bool { return p.source == Store }) {
		s.cache.put(base, dir, m, func() bool { return s.o.locks.unchanged(v) })
	}
	return m, nil
}

// current reports whether no layer that others may change has got a directory
// meanwhile where it had none for m or an ancestor. If one has, what was made
// from its absence is dead.
func (s *stack) current(ctx context.Context, m *merged) (bool, error) {
	for ; m != nil; m = m.parent {
		for _, p := range m.unsure {
			if s.absences.has(p) {
				continue
			}
			a, err := s.layers[p.layer].Lstat(ctx, p.name)
			if err == nil && a.IsDir() {
				m.dead.Store(true)
				return false, nil
			}
			if err != nil && !absent(err) {
				return false, err
			}
		}
	}
	return true, nil
}

// merge finds the parts of dir, whose parent is given.
func (s *stack) merge(ctx context.Context, base int, parent *merged, dir Name) (*merged, error) {
	m := &merged{name: dir, parent: parent}
	if parent.below != "" {
		m.below = parent.below.Join(dir.Base())
	}
	hidden := syscall.ENOENT // what dir is if no part is found
	for i := 0; ; i++ {
		i = parent.names.next(ctx, s, parent.parts, i, dir.Base())
		if i >= len(parent.parts) {
			break
		}
		up := parent.parts[i]
		p := place{up.layer, up.name.Join(dir.Base())}
		a, marks, err := s.lookMarks(ctx, p, i < len(parent.parts)-1)
		if marks.Gone {
			break
		}
		if absent(err) {
			if up.source != Exclusive {
				m.unsure = append(m.unsure, p)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if !a.IsDir() {
			hidden = syscall.ENOTDIR
			break
		}
		m.parts = append(m.parts, part{p, a.Source})
		if p.layer == base && marks.Opaque {
			m.below = ""
		} else if p.layer == base && marks.Redirect != "" {
			m.below = marks.Redirect
		}
		if marks.Opaque {
			break
		}
		if marks.Redirect != "" {
			return s.redirected(ctx, m, marks.Redirect)
		}
	}
	if len(m.parts) == 0 {
		return nil, PathError("lstat", dir, hidden)
	}
	return m, nil
}

// redirected adds to m, the last part of which says that its lower part is at
// target, what the layers below that part hold there.
func (s *stack) redirected(ctx context.Context, m *merged, target Name) (*merged, error) {
	last := m.parts[len(m.parts)-1].layer
	lower, err := s.resolve(ctx, last+1, target)
	switch {
	case err == nil:
		m.parts = append(m.parts, lower.parts...)
		for q := lower; q != nil; q = q.parent {
			m.unsure = append(m.unsure, q.unsure...)
		}
	case !absent(err):
		return nil, err
	}
	return m, nil
}
