// Package errkv wraps a store so that tests can make its operations fail: the
// third Apply, the first Get of some key, every Scan. A fault is an input, and
// Sweep feeds all of them to a compound operation, one after the other.
package errkv

import (
	"context"

	"github.com/wsfs/wsfs/kvstore"
)

var (
	_ kvstore.Store   = (*Store)(nil)
	_ kvstore.Watcher = (*Store)(nil)
)

// A Store passes calls on to another store unless its Injector says otherwise.
// It hides abilities of the store below; Unwrap shows them.
type Store struct {
	below  kvstore.Store
	inject *Injector
}

// Wrap returns a store that asks inject before each call to below. Several
// stores may share an Injector, which then counts the calls of all.
func Wrap(below kvstore.Store, inject *Injector) *Store {
	return &Store{below: below, inject: inject}
}

// Unwrap returns the store below.
func (s *Store) Unwrap() any { return s.below }

// Get passes on, or fails as the Injector says.
func (s *Store) Get(ctx context.Context, key kvstore.Key) (kvstore.Item, error) {
	fault := s.inject.next(Op{Kind: Get, Key: key})
	if fault.Before != nil {
		return kvstore.Item{}, fault.Before
	}
	item, err := s.below.Get(ctx, key)
	if fault.After != nil {
		return kvstore.Item{}, fault.After
	}
	return item, err
}

// Scan passes on, or fails as the Injector says: with After once all items were
// passed.
func (s *Store) Scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) error) error {
	fault := s.inject.next(Op{Kind: Scan, Key: prefix})
	if fault.Before != nil {
		return fault.Before
	}
	err := s.below.Scan(ctx, prefix, fn)
	if fault.After != nil {
		return fault.After
	}
	return err
}

// Apply passes on, or fails as the Injector says: with Before nothing is
// written, with After everything is, and the caller does not know.
func (s *Store) Apply(ctx context.Context, b *kvstore.Batch) error {
	fault := s.inject.next(applyOp(b))
	if fault.Before != nil {
		return fault.Before
	}
	err := s.below.Apply(ctx, b)
	if fault.After != nil {
		return fault.After
	}
	return err
}

// Watch passes on, or fails as the Injector says. It is ErrUnavailable if the
// store below has no change feed.
func (s *Store) Watch(ctx context.Context, prefix kvstore.Key, ready func(), fn func(kvstore.Key)) error {
	fault := s.inject.next(Op{Kind: Watch, Key: prefix})
	if fault.Before != nil {
		return fault.Before
	}
	w, ok := s.below.(kvstore.Watcher)
	if !ok {
		return kvstore.ErrUnavailable
	}
	err := w.Watch(ctx, prefix, ready, fn)
	if fault.After != nil {
		return fault.After
	}
	return err
}

// Close closes the store below. It never fails on its own.
func (s *Store) Close() error { return s.below.Close() }
