// Package feed is the change feed of stores that see every change of theirs
// themselves: it fans the keys of each commit out to the watchers.
//
// A watcher that is slow costs memory for the distinct keys it has yet to hear
// of, and nothing else: publishing never waits, and no key is ever dropped.
package feed

import (
	"context"
	"strings"
	"sync"

	"github.com/wsfs/wsfs/kvstore"
)

// A Feed passes changed keys on to watchers. The zero value is ready for use.
type Feed struct {
	// mu is a leaf: nothing is called with it held.
	mu       sync.Mutex
	watchers map[*watcher]struct{} // protected by mu
	closed   bool                  // protected by mu; never unset
}

// A watcher is one running Watch.
type watcher struct {
	prefix kvstore.Key // immutable
	// wake holds a token while pending is not empty or the feed was closed.
	wake chan struct{}
	// pending are the keys to be told, in no order. Protected by Feed.mu.
	pending map[kvstore.Key]struct{}
}

// Publish tells the watchers that keys have changed. The store must show the
// change before. It does not wait for any watcher.
func (f *Feed) Publish(keys []kvstore.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers {
		w.addLocked(keys)
	}
}

// addLocked notes those of keys that w watches. Preconditions: Feed.mu is held.
func (w *watcher) addLocked(keys []kvstore.Key) {
	for _, key := range keys {
		if strings.HasPrefix(string(key), string(w.prefix)) {
			w.pending[key] = struct{}{}
		}
	}
	if len(w.pending) > 0 {
		w.signal()
	}
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Watch does what kvstore.Watcher says. It returns ctx's error, or ErrClosed
// after Close.
func (f *Feed) Watch(ctx context.Context, prefix kvstore.Key, ready func(), fn func(kvstore.Key)) error {
	w, err := f.subscribe(prefix)
	if err != nil {
		return err
	}
	defer f.unsubscribe(w)
	if ready != nil {
		ready()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		keys, closed := f.take(w)
		for key := range keys {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fn(key)
		}
		if closed {
			return kvstore.ErrClosed
		}
	}
}

func (f *Feed) subscribe(prefix kvstore.Key) (*watcher, error) {
	w := &watcher{prefix: prefix, wake: make(chan struct{}, 1), pending: map[kvstore.Key]struct{}{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, kvstore.ErrClosed
	}
	if f.watchers == nil {
		f.watchers = map[*watcher]struct{}{}
	}
	f.watchers[w] = struct{}{}
	return w, nil
}

func (f *Feed) unsubscribe(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
}

// take returns what w has yet to hear of, and whether that was the last.
func (f *Feed) take(w *watcher) (keys map[kvstore.Key]struct{}, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, w.pending = w.pending, map[kvstore.Key]struct{}{}
	return keys, f.closed
}

// Close ends every Watch with ErrClosed, after it was told what was published
// before. Closing twice is harmless.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for w := range f.watchers {
		w.signal()
	}
}
