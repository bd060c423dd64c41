package overlay

import (
	"context"
	"sync"
	"syscall"
)

// Watch implements Watcher: it watches the directory name in every layer that
// others may change and, where such a layer does not hold it, for its coming.
// Once a directory of another layer has come or gone, fn("") was called and
// the watch may not cover it: the caller then watches anew. If any part cannot
// be watched, nothing is.
func (o *Overlay) Watch(ctx context.Context, name Name, fn func(child string)) (func(), error) {
	s := o.stack
	d, err := s.resolve(ctx, 0, name)
	if err != nil {
		return nil, about("watch", name, err)
	}
	var stops []func()
	stop := sync.OnceFunc(func() {
		for _, stop := range stops {
			stop()
		}
	})
	add := func(p place, fn func(string), end func()) error {
		w, ok := As[Watcher](any(s.layers[p.layer].Reader))
		if !ok {
			return PathError("watch", name, syscall.ENOTSUP)
		}
		stop, err := w.Watch(ctx, p.name, fn)
		if err == nil {
			stops = append(stops, end, stop)
		}
		return err
	}
	fn = oneAtATime(fn)
	if err := s.watchParts(ctx, d, fn, add); err != nil {
		stop()
		return nil, about("watch", name, err)
	}
	return stop, nil
}

// An adder adds the watch of a place; end is called before it ends.
type adder func(p place, fn func(child string), end func()) error

// watchParts calls add for each part of d that others may change, and for each
// directory in which a further part of it, or of an ancestor, may appear.
func (s *stack) watchParts(ctx context.Context, d *merged, fn func(string), add adder) error {
	_, mixed := As[Parter](any(s.upper)) // files of stores in directories of its own
	for _, p := range d.parts {
		if p.source == Exclusive && !(mixed && p.layer == 0) {
			continue
		}
		if err := add(p.place, fn, func() {}); err != nil {
			return err
		}
	}
	for ; d != nil; d = d.parent {
		for _, p := range d.unsure {
			if err := s.watchAbsence(ctx, p, fn, add); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchAbsence calls add for the directory in which p may appear. Until it does,
// or the watch ends, the absence of p counts as known.
func (s *stack) watchAbsence(ctx context.Context, p place, fn func(string), add adder) error {
	dir, base := p.name.Split()
	release := s.absences.add(p)
	appears := func(child string) {
		if child == base || child == "" {
			release()
			fn("")
		}
	}
	if err := add(place{p.layer, dir}, appears, release); err != nil {
		release()
		if absent(err) {
			return nil
		}
		return err
	}
	// It may have appeared before the watch began.
	if _, err := s.layers[p.layer].Lstat(ctx, p.name); !absent(err) {
		release()
	}
	return nil
}

// oneAtATime returns fn for callers that run at the same time.
func oneAtATime(fn func(string)) func(string) {
	var mu sync.Mutex
	return func(child string) {
		mu.Lock()
		defer mu.Unlock()
		fn(child)
	}
}
