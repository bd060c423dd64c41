// Package memkv is a store in memory: for tests, and for workspaces whose
// memory may end with the daemon (--store mem:). It keeps every promise of
// package kvstore but durability.
//
// Readers never wait: the items are an immutable tree, and Apply puts a new
// one in its place.
package memkv

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/internal/feed"
)

var (
	_ kvstore.Store   = (*Store)(nil)
	_ kvstore.Watcher = (*Store)(nil)
)

// A Store is a kvstore.Store and Watcher in memory. Make it with New.
type Store struct {
	// Limit is how many bytes of keys and values the store takes; Apply of
	// more is ErrFull. 0 means no limit. Set it before the first Apply.
	Limit int64

	feed feed.Feed

	// state is what the store holds; replaced, never changed, with mu held.
	// nil after Close.
	state atomic.Pointer[state]

	// mu orders changes and Close. The feed's lock is taken under it.
	mu sync.Mutex
}

// A state is one moment of a store.
type state struct {
	root *node
	// version is that of the last change. One counter serves all keys, so that
	// versions grow over deletion without anything being kept of the deleted.
	version uint64
	size    int64 // bytes of keys and values
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.state.Store(&state{})
	return s
}

// load returns the present moment, or an error if ctx is done or s was closed.
func (s *Store) load(ctx context.Context) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := s.state.Load()
	if st == nil {
		return nil, kvstore.ErrClosed
	}
	return st, nil
}

// Get returns the newest item of key.
func (s *Store) Get(ctx context.Context, key kvstore.Key) (kvstore.Item, error) {
	st, err := s.load(ctx)
	if err != nil {
		return kvstore.Item{}, err
	}
	if err := key.Validate(); err != nil {
		return kvstore.Item{}, err
	}
	n := st.root.get(key)
	if n == nil {
		return kvstore.Item{}, kvstore.ErrNotFound
	}
	return copied(n.item), nil
}

// Scan calls fn for each item below prefix, as of the call.
func (s *Store) Scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) error) error {
	st, err := s.load(ctx)
	if err != nil {
		return err
	}
	return st.root.scan(prefix, func(item kvstore.Item) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(copied(item))
	})
}

// copied returns item with a value that is the caller's to keep.
func copied(item kvstore.Item) kvstore.Item {
	item.Value = bytes.Clone(item.Value)
	return item
}

// Apply does all of b or nothing.
func (s *Store) Apply(ctx context.Context, b *kvstore.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.load(ctx)
	if err != nil {
		return err
	}
	if err := old.check(b); err != nil {
		return err
	}
	next, changed := old.apply(b)
	if s.Limit > 0 && next.size > s.Limit && next.size > old.size {
		return fmt.Errorf("%w: %d of %d bytes used", kvstore.ErrFull, old.size, s.Limit)
	}
	s.state.Store(next)
	s.feed.Publish(changed)
	return nil
}

// check returns ErrConflict unless every Check of b holds.
func (st *state) check(b *kvstore.Batch) error {
	for _, op := range b.Ops {
		if op.Kind != kvstore.OpCheck {
			continue
		}
		var version uint64
		if n := st.root.get(op.Key); n != nil {
			version = n.item.Version
		}
		if version != op.Version {
			return fmt.Errorf("%w: key %q has version %d, not %d", kvstore.ErrConflict, op.Key, version, op.Version)
		}
	}
	return nil
}

// apply returns the moment after b's changes, and the keys they name.
func (st *state) apply(b *kvstore.Batch) (*state, []kvstore.Key) {
	next := *st
	next.version++
	var changed []kvstore.Key
	for _, op := range b.Ops {
		if op.Kind == kvstore.OpCheck {
			continue
		}
		next.change(op)
		changed = append(changed, op.Key)
	}
	return &next, changed
}

// change does one Put or Delete.
func (st *state) change(op kvstore.Op) {
	if n := st.root.get(op.Key); n != nil {
		st.size -= int64(len(n.item.Key) + len(n.item.Value))
	}
	if op.Kind == kvstore.OpDelete {
		st.root = st.root.remove(op.Key)
		return
	}
	st.root = st.root.put(kvstore.Item{Key: op.Key, Value: bytes.Clone(op.Value), Version: st.version})
	st.size += int64(len(op.Key) + len(op.Value))
}

// Watch calls fn for changes under prefix, as kvstore.Watcher says.
func (s *Store) Watch(ctx context.Context, prefix kvstore.Key, ready func(), fn func(kvstore.Key)) error {
	return s.feed.Watch(ctx, prefix, ready, fn)
}

// Close drops what the store holds. Every later call is ErrClosed, and every
// running Watch ends with it. A running Scan goes on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Store(nil)
	s.feed.Close()
	return nil
}
