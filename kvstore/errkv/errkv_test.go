package errkv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/errkv"
	"github.com/wsfs/wsfs/kvstore/kvtest"
	"github.com/wsfs/wsfs/kvstore/memkv"
)

// TestTransparent runs the suite: without rules the wrapper changes nothing.
func TestTransparent(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(*testing.T) kvstore.Store { return errkv.Wrap(memkv.New(), &errkv.Injector{}) })
}

func put(ctx context.Context, s kvstore.Store, keys ...kvstore.Key) error {
	var b kvstore.Batch
	for _, key := range keys {
		b.Put(key, nil)
	}
	return s.Apply(ctx, &b)
}

func TestRules(t *testing.T) {
	t.Parallel()
	var inject errkv.Injector
	s := errkv.Wrap(errkv.Wrap(memkv.New(), &errkv.Injector{}), &inject)
	boom := errors.New("boom")
	onA := func(op errkv.Op) bool { return op.Kind == errkv.Apply && op.Touches("a") }
	inject.Add(errkv.Nth(1, onA, errkv.Fault{Before: boom}))
	for i, want := range []error{nil, nil, boom, nil} {
		keys := []kvstore.Key{"b", "a"}
		if i == 1 {
			keys = keys[:1]
		}
		if err := put(t.Context(), s, keys...); !errors.Is(err, want) {
			t.Errorf("Apply %d of %q: got %v, want %v", i, keys, err, want)
		}
	}
	inject.Add(errkv.Each(errkv.OfKind(errkv.Get), errkv.Fault{Before: boom}))
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, boom) {
		t.Errorf("Get: got %v, want boom", err)
	}
	if err := s.Scan(t.Context(), "", func(kvstore.Item) error { return nil }); err != nil {
		t.Errorf("Scan: got %v, want nil", err)
	}
	inject.Reset()
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Errorf("Get after Reset: got %v, want nil", err)
	}
	if calls, hit := len(inject.Calls()), inject.Hit(); calls != 7 || len(hit) != 2 || hit[0].N != 2 {
		t.Errorf("record: got %d calls, hit %v, want 7 and call 2 and 4", calls, hit)
	}
}

// TestLostAnswer has a batch applied whose outcome the caller does not learn.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	var inject errkv.Injector
	s := errkv.Wrap(memkv.New(), &inject)
	inject.Add(errkv.Nth(0, nil, errkv.Fault{After: kvstore.ErrUnavailable}))
	if err := put(t.Context(), s, "a"); !errors.Is(err, kvstore.ErrUnavailable) {
		t.Errorf("Apply: got %v, want ErrUnavailable", err)
	}
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Errorf("Get of what was applied: got %v, want nil", err)
	}
}

// TestSweep sweeps an operation of two batches that leaves, at worst, the
// first of them: each of its three calls fails once in every way.
func TestSweep(t *testing.T) {
	t.Parallel()
	runs, failures := 0, 0
	errkv.Sweep(t, func(t *testing.T, inject *errkv.Injector) error {
		runs++
		below := memkv.New()
		s := errkv.Wrap(below, inject)
		err := func() error {
			if _, err := s.Get(t.Context(), "x"); !errors.Is(err, kvstore.ErrNotFound) {
				return err
			}
			if err := put(t.Context(), s, "first"); err != nil {
				return err
			}
			return put(t.Context(), s, "second")
		}()
		if err != nil {
			failures++
		}
		_, first := below.Get(t.Context(), "first")
		_, second := below.Get(t.Context(), "second")
		if first != nil && second == nil {
			t.Errorf("second batch without the first")
		}
		if err == nil && second != nil {
			t.Errorf("no second batch although the operation succeeded")
		}
		return err
	})
	if runs != 4+4+3 || failures != 3+3+2 {
		t.Errorf("sweep of three calls, two of them Apply: got %d runs, %d failures, want 11 and 8", runs, failures)
	}
}
