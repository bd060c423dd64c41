package overlay

import (
	"context"
	"slices"
	"strings"
	"syscall"
)

// Lstat implements Reader.
func (o *Overlay) Lstat(ctx context.Context, name Name) (Attr, error) {
	h, err := o.find(ctx, "lstat", name)
	if err != nil {
		return Attr{}, err
	}
	return o.attr(ctx, "lstat", name, h)
}

// attr returns the attributes of h as the tree has them. A directory of
// several layers has one link, which tells find(1) and others not to count.
func (o *Overlay) attr(ctx context.Context, op string, name Name, h hit) (Attr, error) {
	a := o.stack.show(h.attr)
	if name == Root {
		a.Ino = o.stack.rootIno
	}
	if !a.IsDir() || h.layer == len(o.stack.layers)-1 {
		return a, nil
	}
	d, err := o.stack.resolve(ctx, 0, name)
	switch {
	case err != nil && !absent(err):
		return Attr{}, about(op, name, err)
	case err == nil && len(d.parts) > 1:
		a.Nlink = 1
	}
	return a, nil
}

// InUpper implements Placer.
func (o *Overlay) InUpper(ctx context.Context, name Name) (bool, error) {
	h, err := o.find(ctx, "lstat", name)
	return h.top, err
}

// find finds name as it is at one moment. Of a lower file with several names
// it finds the copy, if it was copied up under any of them.
func (o *Overlay) find(ctx context.Context, op string, name Name) (hit, error) {
	for range copyTries {
		h, err := o.findOne(ctx, op, name)
		if err != nil || h.top || h.attr.IsDir() || h.attr.Nlink < 2 {
			return h, err
		}
		again, err := o.followIndex(ctx, op, name, &h)
		if err != nil || !again {
			return h, err
		}
	}
	return hit{}, PathError(op, name, syscall.EBUSY)
}

// findOne is find without regard to hard links. It takes the directory's lock
// only where changes keep it from seeing one moment.
func (o *Overlay) findOne(ctx context.Context, op string, name Name) (hit, error) {
	dir := name.Dir()
	segment := o.Segment(dir) // whose locks changes of the directory take
	for range 3 {
		v := o.locks.version(segment, dir)
		h, err := o.stack.find(ctx, op, name)
		if h.top && err == nil || o.locks.unchanged(v) {
			h.seen = v
			return h, err
		}
	}
	defer o.locks.share(segment, dir)()
	return o.stack.find(ctx, op, name)
}

// ReadDir implements Reader.
func (o *Overlay) ReadDir(ctx context.Context, name Name) ([]Entry, error) {
	segment := o.Segment(name)
	for range 3 {
		v := o.locks.version(segment, name)
		entries, err := o.stack.readDir(ctx, name)
		if o.locks.unchanged(v) {
			return entries, about("readdir", name, err)
		}
	}
	defer o.locks.share(segment, name)()
	entries, err := o.stack.readDir(ctx, name)
	return entries, about("readdir", name, err)
}

// readDir returns the entries of dir with the numbers of the tree.
func (s *stack) readDir(ctx context.Context, dir Name) ([]Entry, error) {
	d, err := s.resolve(ctx, 0, dir)
	if err != nil {
		return nil, err
	}
	entries, err := s.union(ctx, d)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		e := &entries[i]
		e.Ino = s.numbers.show(e.Dev, e.Ino, e.Origin)
		e.Dev = 0
	}
	return entries, nil
}

// union returns the entries of the parts of d together, ascending. A part that
// is gone on the host holds nothing; if all are, so is the directory.
func (s *stack) union(ctx context.Context, d *merged) ([]Entry, error) {
	if len(d.parts) == 1 {
		entries, err := s.layers[d.parts[0].layer].ReadDir(ctx, d.parts[0].name)
		s.origins(d, d.parts[0].layer, entries)
		return entries, err
	}
	var all []Entry
	var last error
	seen := make(map[string]struct{})
	gone := len(d.parts)
	for i, p := range d.parts {
		l := &s.layers[p.layer]
		entries, err := l.ReadDir(ctx, p.name)
		if absent(err) {
			gone, last = gone-1, err
			continue
		}
		if err != nil {
			return nil, err
		}
		s.origins(d, p.layer, entries)
		for _, e := range entries {
			if _, hidden := seen[e.Name]; !hidden {
				seen[e.Name] = struct{}{}
				all = append(all, e)
			}
		}
		if l.marks == nil || i == len(d.parts)-1 {
			continue
		}
		marks, err := l.marks.Marks(ctx, p.name)
		if err != nil {
			return nil, err
		}
		for _, name := range marks {
			seen[name] = struct{}{}
		}
	}
	if gone == 0 {
		return nil, last
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// origins sets the Origin of entries of the directory d, which layer told.
func (s *stack) origins(d *merged, layer int, entries []Entry) {
	if s.segments == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		e.Origin = s.origin(layer, d.name, e.Name, e.Dev, e.Ino, e.Origin)
	}
}

// Readlink implements Reader.
func (o *Overlay) Readlink(ctx context.Context, name Name) (string, error) {
	h, err := o.find(ctx, "readlink", name)
	if err != nil {
		return "", err
	}
	target, err := o.stack.layers[h.layer].Readlink(ctx, h.name)
	return target, about("readlink", name, err)
}

// Open implements Reader.
func (o *Overlay) Open(ctx context.Context, name Name) (Handle, error) {
	h, err := o.find(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	in, err := o.stack.open(ctx, h)
	if err != nil {
		return nil, about("open", name, err)
	}
	return readHandle{in, o.stack, h.attr.Origin}, nil
}

// open opens the file h as its layer has it.
func (s *stack) open(ctx context.Context, h hit) (Handle, error) {
	if h.copied != nil {
		return h.copied.OpenIndexed(ctx, s.show(h.attr).Ino)
	}
	return s.layers[h.layer].Open(ctx, h.name)
}

// Getxattr implements Xattrer.
func (o *Overlay) Getxattr(ctx context.Context, name Name, attr string) (value []byte, err error) {
	err = o.withXattrs(ctx, "getxattr", name, func(x Xattrer, name Name) (err error) {
		if x == nil {
			return PathError("getxattr", name, syscall.ENOTSUP)
		}
		value, err = x.Getxattr(ctx, name, attr)
		return err
	})
	return value, err
}

// Listxattr implements Xattrer.
func (o *Overlay) Listxattr(ctx context.Context, name Name) (names []string, err error) {
	err = o.withXattrs(ctx, "listxattr", name, func(x Xattrer, name Name) (err error) {
		if x != nil {
			names, err = x.Listxattr(ctx, name)
		}
		return err
	})
	return names, err
}

// withXattrs calls fn with the layer that holds name, nil if that has no
// extended attributes, and name's name there, or perhaps
// first with the upper, which need not hold the file.
func (o *Overlay) withXattrs(ctx context.Context, op string, name Name, fn func(x Xattrer, name Name) error) error {
	if o.holds(ctx, name.Dir()) && o.stack.layers[0].xattrs != nil {
		if err := fn(o.stack.layers[0].xattrs, name); !absent(err) && !isErrno(err, syscall.ENOTSUP) {
			return about(op, name, err)
		}
	}
	h, err := o.find(ctx, op, name)
	if err != nil {
		return err
	}
	return about(op, name, fn(o.stack.layers[h.layer].xattrs, h.name))
}

// holds reports whether the upper holds the directory dir: then what it has in
// there is what the tree shows.
func (o *Overlay) holds(ctx context.Context, dir Name) bool {
	d, err := o.stack.resolve(ctx, 0, dir)
	return err == nil && d.inUpper(o.stack)
}
