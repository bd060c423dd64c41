// Package kvtest is the suite that every backend of package kvstore passes.
//
// A backend's test is one line, Run or RunDurable, and tests of what only that
// backend promises. A bug found in any backend becomes a case here.
package kvtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

// An Open returns a store for one test, empty at first. Called again in the
// same test it opens the same store, as after a restart, if the backend is
// durable; the store opened before was closed.
type Open func(t *testing.T) kvstore.Store

// Run runs the suite against stores that open returns, a new one for each test.
// Stores that are a kvstore.Watcher are tested as such.
func Run(t *testing.T, open Open) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { closeStore(t, s) })
			c.run(t, s)
		})
	}
	for _, c := range watchCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { closeStore(t, s) })
			if _, ok := s.(kvstore.Watcher); !ok {
				t.Skipf("%T has no change feed", s)
			}
			c.run(t, s)
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		runModel(t, open, false)
	})
}

// RunDurable runs the suite like Run and then what a store that outlives its
// process has to do. reopen returns an Open for each test: every call of that
// one opens the same store.
func RunDurable(t *testing.T, reopen func(t *testing.T) Open) {
	Run(t, func(t *testing.T) kvstore.Store { return reopen(t)(t) })
	for _, c := range durableCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, reopen(t))
		})
	}
	t.Run("ModelReopened", func(t *testing.T) {
		t.Parallel()
		runModel(t, reopen(t), true)
	})
}

// A testCase is one case of the suite.
type testCase struct {
	name string
	run  func(t *testing.T, s kvstore.Store)
}

func closeStore(t *testing.T, s kvstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: got %v, want nil", err)
	}
}

// apply applies the batch that build makes, and fails the test otherwise.
func apply(t *testing.T, s kvstore.Store, build func(b *kvstore.Batch)) {
	t.Helper()
	var b kvstore.Batch
	build(&b)
	if err := s.Apply(t.Context(), &b); err != nil {
		t.Fatalf("Apply of %d operations: got %v, want nil", len(b.Ops), err)
	}
}

func put(t *testing.T, s kvstore.Store, key kvstore.Key, value string) {
	t.Helper()
	apply(t, s, func(b *kvstore.Batch) { b.Put(key, []byte(value)) })
}

func remove(t *testing.T, s kvstore.Store, key kvstore.Key) {
	t.Helper()
	apply(t, s, func(b *kvstore.Batch) { b.Delete(key) })
}

// get returns what key holds, and fails the test if that is nothing.
func get(t *testing.T, s kvstore.Store, key kvstore.Key) kvstore.Item {
	t.Helper()
	item, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get(%.40q): got %v, want an item", key, err)
	}
	if item.Key != key || item.Version == 0 {
		t.Fatalf("Get(%.40q): got key %.40q, version %d, want the same key and a version over 0", key, item.Key, item.Version)
	}
	return item
}

// wantGone fails the test unless key holds nothing.
func wantGone(t *testing.T, s kvstore.Store, key kvstore.Key) {
	t.Helper()
	if item, err := s.Get(t.Context(), key); !errors.Is(err, kvstore.ErrNotFound) {
		t.Fatalf("Get(%.40q): got %.40q, %v, want ErrNotFound", key, item.Value, err)
	}
}

// wantApply fails the test unless Apply of b gives an error that is want.
func wantApply(t *testing.T, s kvstore.Store, b *kvstore.Batch, want error) {
	t.Helper()
	if err := s.Apply(t.Context(), b); !errors.Is(err, want) {
		t.Fatalf("Apply: got %v, want %v", err, want)
	}
}

// scan returns the items below prefix.
func scan(ctx context.Context, s kvstore.Store, prefix kvstore.Key) ([]kvstore.Item, error) {
	var items []kvstore.Item
	err := s.Scan(ctx, prefix, func(item kvstore.Item) error {
		items = append(items, item)
		return nil
	})
	return items, err
}

// wantScan fails the test unless the keys below prefix are want, in order.
func wantScan(t *testing.T, s kvstore.Store, prefix kvstore.Key, want ...kvstore.Key) {
	t.Helper()
	items, err := scan(t.Context(), s, prefix)
	if err != nil {
		t.Fatalf("Scan(%q): got %v, want nil", prefix, err)
	}
	got := make([]kvstore.Key, len(items))
	for i, item := range items {
		got[i] = item.Key
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("Scan(%q): got keys %q, want %q", prefix, got, want)
	}
}
