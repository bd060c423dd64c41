package overlay

import (
	"context"
	"syscall"
)

// A stack is the layers of an Overlay. It is immutable, but for what it remembers.
type stack struct {
	o *Overlay

	upper    Upper     // nil if the stack is read-only
	segments Segmenter // of the upper; nil if it has one segment
	pins     Pinner    // of the upper; nil if nothing is pinned

	layers []layer   // the upper, if there is one, and the lowers; top first
	roots  []*merged // by layer: the root of the tree of it and those below

	numbers *numbers
	rootIno uint64 // the number of the whole tree's root

	cache    *cache
	absences absences
}

// A layer is a layer of a stack with its abilities.
type layer struct {
	Reader
	id      string     // "" if it has no identity
	marks   Whiteouter // nil if nothing in it hides anything below
	marker  Marker     // nil if its marks are read apart
	finder  Finder     // nil if it tells of whiteouts only with all marks
	xattrs  Xattrer    // nil if it has none
	indexed IndexOpener
	parts   bool // its own files are in several segments
}

// newLayer returns r with its abilities.
func newLayer(r Reader) layer {
	l := layer{Reader: r}
	if id, ok := As[Identified](any(r)); ok {
		l.id = id.LayerID()
	}
	l.marks, _ = As[Whiteouter](any(r))
	l.marker, _ = As[Marker](any(r))
	l.finder, _ = As[Finder](any(r))
	l.xattrs, _ = As[Xattrer](any(r))
	l.indexed, _ = As[IndexOpener](any(r))
	_, l.parts = As[Segmenter](any(r))
	return l
}

// newStack returns the stack of upper, which may be nil, over lowers.
func newStack(o *Overlay, upper Upper, lowers []Reader) *stack {
	s := &stack{o: o, upper: upper, cache: newCache()}
	if upper != nil {
		s.layers = append(s.layers, newLayer(upper))
		s.segments, _ = As[Segmenter](any(upper))
		s.pins, _ = As[Pinner](any(upper))
	}
	for _, r := range lowers {
		s.layers = append(s.layers, newLayer(r))
	}
	s.assemble()
	return s
}

// assemble reads the roots of the layers, and gives their devices numbers, the
// bottom first: a layer that is put on top changes none of them.
func (s *stack) assemble() {
	s.numbers = newNumbers()
	s.roots = make([]*merged, len(s.layers)+1)
	s.roots[len(s.layers)] = &merged{name: Root, below: Root}
	for i := len(s.layers) - 1; i >= 0; i-- {
		l := s.layers[i]
		a, err := l.Lstat(context.Background(), Root)
		if err != nil {
			a.Source = Host // the least is then known of it
		}
		parts := []part{{place{i, Root}, a.Source}}
		s.roots[i] = &merged{name: Root, below: Root, parts: append(parts, s.roots[i+1].parts...)}
		if d, ok := As[Devicer](any(l.Reader)); ok {
			s.numbers.add(d.Devices()...)
		} else if err == nil {
			s.numbers.add(a.Dev)
		}
		if err == nil && s.rootIno == 0 {
			s.rootIno = s.numbers.show(a.Dev, a.Ino, a.Origin)
		}
	}
}

// A place is a file of one layer.
type place struct {
	layer int
	name  Name
}

// look returns what the layer of p holds at p and, with an absent error, whether
// it records the name as gone. more says whether something below counts then.
func (s *stack) look(ctx context.Context, p place, more bool) (a Attr, gone bool, err error) {
	l := &s.layers[p.layer]
	switch {
	case l.marks == nil || !more:
		a, err = l.Lstat(ctx, p.name)
		return a, false, err
	case l.finder != nil:
		return l.finder.Find(ctx, p.name)
	}
	a, m, err := s.lookMarks(ctx, p, more)
	return a, m.Gone, err
}

// lookMarks returns what the layer of p holds at p and, where anything below the
// layer could be seen there, what it records of it. absent errors have a
// meaningful Absence. more says whether something below counts if the layer
// holds nothing.
func (s *stack) lookMarks(ctx context.Context, p place, more bool) (Attr, Absence, error) {
	l := &s.layers[p.layer]
	bottom := p.layer == len(s.layers)-1
	if l.marks == nil || bottom {
		a, err := l.Lstat(ctx, p.name)
		return a, Absence{}, err
	}
	if l.marker != nil {
		return l.marker.LstatMarks(ctx, p.name)
	}
	a, err := l.Lstat(ctx, p.name)
	if (err == nil && !a.IsDir()) || (err != nil && !(more && absent(err))) {
		return a, Absence{}, err
	}
	m, merr := l.marks.Absence(ctx, p.name)
	if merr != nil {
		return a, m, merr
	}
	return a, m, err
}

// A hit is a file that was found.
type hit struct {
	place
	attr Attr // as its layer told it
	top  bool // it is in the upper
	// copied is the layer that holds a copy of this hard-linked lower file
	// under another name, which is what the file is; nil for all others.
	copied IndexOpener
	// seen is the version of the directory in which it was found, if it was
	// found without its lock.
	seen version
}

// find finds name. The error is absent, or about a layer that did not answer.
func (s *stack) find(ctx context.Context, op string, name Name) (hit, error) {
	if name == Root {
		if len(s.layers) == 0 {
			return hit{}, PathError(op, name, syscall.ENOENT)
		}
		a, err := s.layers[0].Lstat(ctx, Root)
		return hit{place: place{0, Root}, attr: a, top: s.upper != nil}, about(op, name, err)
	}
	dir, base := name.Split()
	for first := true; ; first = false {
		d, err := s.resolve(ctx, 0, dir)
		if err != nil {
			return hit{}, about(op, name, err)
		}
		h, err := s.findIn(ctx, d, base)
		// A host directory that became something else: what the cache knows
		// of it is out of date.
		if first && isErrno(err, syscall.ENOTDIR) && d != s.roots[0] {
			s.cache.kill(0, dir)
			continue
		}
		return h, about(op, name, err)
	}
}

// findIn finds the file base of the directory d. It fails with ENOTDIR if a
// part of d is no directory any more.
func (s *stack) findIn(ctx context.Context, d *merged, base string) (hit, error) {
	return s.findFrom(ctx, d, 0, base)
}

// findFrom is findIn without regard to the first parts of d.
func (s *stack) findFrom(ctx context.Context, d *merged, first int, base string) (hit, error) {
	for i := first; ; i++ {
		i = d.names.next(ctx, s, d.parts, i, base)
		if i >= len(d.parts) {
			return hit{}, PathError("lstat", Name(base), syscall.ENOENT)
		}
		p := place{d.parts[i].layer, d.parts[i].name.Join(base)}
		a, gone, err := s.look(ctx, p, i < len(d.parts)-1)
		switch {
		case err == nil:
			a.Origin = s.origin(p.layer, d.name, base, a.Dev, a.Ino, a.Origin)
			return hit{place: p, attr: a, top: s.upper != nil && p.layer == 0}, nil
		case gone:
			return hit{}, PathError("lstat", p.name, syscall.ENOENT)
		case isErrno(err, syscall.ENOENT):
		default:
			return hit{}, err
		}
	}
}

// below reports whether the lowers hold a file base of the directory d that
// the upper has to hide where it shall not be seen.
func (s *stack) below(ctx context.Context, d *merged, base string) (bool, error) {
	first := 0
	if d.inUpper(s) {
		first = 1
	}
	_, err := s.findFrom(ctx, d, first, base)
	switch {
	case err == nil:
		return true, nil
	case absent(err):
		return false, nil
	}
	return false, err
}

// origin returns the Attr.Origin of the file base of the directory dir, when
// its layer told the rest. Names of one lower file that belong to different
// segments are copied up apart: outside the first segment lower files have
// numbers of their own.
func (s *stack) origin(layer int, dir Name, base string, dev, ino, origin uint64) uint64 {
	if s.segments == nil || layer == 0 || origin != 0 || s.layers[layer].parts {
		return origin
	}
	segment := s.segments.Segment(dir.Join(base))
	if segment == 0 {
		return 0
	}
	return s.numbers.hash(s.numbers.show(dev, ino, 0), uint64(segment))
}

// show returns a as the Overlay tells it.
func (s *stack) show(a Attr) Attr {
	a.Ino = s.numbers.show(a.Dev, a.Ino, a.Origin)
	a.Dev = 0
	return a
}
