package memlayer

import (
	"context"
	"sync"

	"github.com/wsfs/wsfs/overlay"
)

// A watch tells one caller of the changes in one directory.
type watch struct {
	dir *node // immutable

	mu      sync.Mutex // taken with the layer's mu held, never the other way
	pending []string   // guarded by mu: children that changed, not yet told

	wake chan struct{} // has room for one
	done chan struct{} // closed by stop
}

// Watch implements overlay.Watcher. Changes that are not told yet when stop is
// called are not told.
func (l *Layer) Watch(_ context.Context, name overlay.Name, fn func(child string)) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.findDir("watch", name)
	if err != nil {
		return nil, err
	}
	w := &watch{dir: dir, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.watches[w] = struct{}{}
	go w.run(fn)
	stop := sync.OnceFunc(func() {
		close(w.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, w)
	})
	return stop, nil
}

// run calls fn for each change until the watch is stopped.
func (w *watch) run(fn func(child string)) {
	for {
		select {
		case <-w.done:
			return
		case <-w.wake:
		}
		w.mu.Lock()
		pending := w.pending
		w.pending = nil
		w.mu.Unlock()
		for _, child := range pending {
			select {
			case <-w.done:
				return
			default:
				fn(child)
			}
		}
	}
}

// tell tells the watches of dir that child changed; "" is dir itself.
//
// Preconditions: l.mu is held.
func (l *Layer) tell(dir *node, child string) {
	for w := range l.watches {
		if w.dir == dir {
			w.add(child)
		}
	}
}

// tellNode tells the watches of n, and of the directories that have a name of
// it, that it changed.
//
// Preconditions: l.mu is held.
func (l *Layer) tellNode(n *node) {
	for w := range l.watches {
		if w.dir == n {
			w.add("")
		}
		for base, c := range w.dir.children {
			if c == n {
				w.add(base)
			}
		}
	}
}

// add queues a change.
func (w *watch) add(child string) {
	w.mu.Lock()
	w.pending = append(w.pending, child)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
