package badgerkv_test

import (
	"log/slog"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/kvstore/kvtest"
)

// options are those of tests: durable, and silent.
func options() badgerkv.Options {
	return badgerkv.Options{Log: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, dir string) *badgerkv.Store {
	t.Helper()
	s, err := badgerkv.Open(dir, options())
	if err != nil {
		t.Fatalf("Open: got %v, want nil", err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	kvtest.RunDurable(t, func(t *testing.T) kvtest.Open {
		dir := t.TempDir()
		return func(t *testing.T) kvstore.Store { return open(t, dir) }
	})
}

func putOne(t *testing.T, s kvstore.Store, key kvstore.Key, value []byte) error {
	t.Helper()
	var b kvstore.Batch
	b.Put(key, value)
	return s.Apply(t.Context(), &b)
}
