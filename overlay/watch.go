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
	add := func(p place, fn func(string)) error {
		w, ok := As[Watcher](any(s.layers[p.layer].Reader))
		if !ok {
			return PathError("watch", name, syscall.ENOTSUP)
		}
		stop, err := w.Watch(ctx, p.name, fn)
		if err == nil {
			stops = append(stops, stop)
		}
		return err
	}
	fn = oneAtATime(fn)
	if err := s.watchParts(d, fn, add); err != nil {
		stop()
		return nil, about("watch", name, err)
	}
	return stop, nil
}

// watchParts calls add for each part of d that others may change, and for each
// directory in which a further part of it, or of an ancestor, may appear.
func (s *stack) watchParts(d *merged, fn func(string), add func(place, func(string)) error) error {
	_, mixed := As[Parter](any(s.upper)) // files of stores in directories of its own
	for _, p := range d.parts {
		if p.source == Exclusive && !(mixed && p.layer == 0) {
			continue
		}
		if err := add(p.place, fn); err != nil {
			return err
		}
	}
	for ; d != nil; d = d.parent {
		for _, p := range d.unsure {
			dir, base := p.name.Split()
			appears := func(child string) {
				if child == base || child == "" {
					fn("")
				}
			}
			if err := add(place{p.layer, dir}, appears); err != nil && !absent(err) {
				return err
			}
		}
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
