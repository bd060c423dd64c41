package overlay

import "context"

// A Parter is an upper made of others: Part returns the one that holds name,
// and its name there.
type Parter interface {
	Part(name Name) (Upper, Name)
}

// indexer returns the index of copied hard links that counts for name: that of
// the part of the upper that name belongs to.
func (s *stack) indexer(name Name) (Indexer, bool) {
	if s.upper == nil {
		return nil, false
	}
	if p, ok := As[Parter](any(s.upper)); ok {
		u, _ := p.Part(name)
		return As[Indexer](any(u))
	}
	return As[Indexer](any(s.upper))
}

// followIndex looks for a copy of h, a lower file with several names, under
// another of them. A copy in the upper gets the name, too, and again is true:
// name has to be looked up anew. A copy in a lower replaces h.
func (o *Overlay) followIndex(ctx context.Context, op string, name Name, h *hit) (again bool, err error) {
	ino := o.stack.show(h.attr).Ino
	if x, ok := o.stack.indexer(name); ok && x.Indexed(ino) {
		return true, o.linkIndexed(ctx, op, name, h.place, ino)
	}
	if !h.attr.IsRegular() {
		return false, nil // a copy of anything else is no different
	}
	for i := 1; i < h.layer; i++ {
		x := o.stack.layers[i].indexed
		if x == nil || !x.Indexed(ino) {
			continue
		}
		from, err := x.OpenIndexed(ctx, ino)
		if err != nil {
			return false, about(op, name, err)
		}
		a, err := from.Stat(ctx)
		if err == nil {
			h.attr, h.copied = a, x
		}
		if cerr := from.Close(); err == nil {
			err = cerr
		}
		return false, about(op, name, err)
	}
	return false, nil
}

// linkIndexed gives the copy of the lower file ino the name name, if that still
// is the lower file at.
func (o *Overlay) linkIndexed(ctx context.Context, op string, name Name, at place, ino uint64) error {
	if err := o.copyUpDir(ctx, op, name.Dir()); err != nil {
		return err
	}
	defer o.lock(name.Dir())()
	h, err := o.stack.find(ctx, op, name)
	if err != nil {
		return err
	}
	if h.place != at {
		return nil
	}
	d, err := o.stack.resolve(ctx, 0, name.Dir())
	if err != nil || !d.inUpper(o.stack) {
		return about(op, name, err)
	}
	x, _ := As[Indexer](any(o.stack.upper))
	if err := x.LinkIndexed(ctx, ino, name); !absent(err) {
		return about(op, name, err)
	}
	return nil
}
