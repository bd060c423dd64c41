package badgerkv

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/wsfs/wsfs/kvstore"
)

func TestDueFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name            string
		freshTables     int
		fresh, settled  int64
		garbage         int64
		merge, reclaims bool
	}{
		{"empty", 0, 0, 0, 0, false, false},
		{"two new tables", 2, 64 * mib, 0, 0, false, false},
		{"three new tables", 3, 96 * mib, 0, 0, true, false},
		{"three new tables beside much", 3, 96 * mib, 4096 * mib, 0, false, false},
		{"an eighth is new", 16, 512 * mib, 4096 * mib, 0, true, false},
		{"many small tables", 16, 1 * mib, 1 * mib, 0, true, false},
		{"many small tables beside much", 16, 1 * mib, 640 * mib, 0, false, false},
		{"little is garbage", 1, 32 * mib, 1000 * mib, 100 * mib, false, false},
		{"half is garbage", 1, 32 * mib, 1000 * mib, 516 * mib, false, true},
		{"all of little is garbage", 1, 1 * mib, 0, 63 * mib, false, false},
	} {
		levels := []badger.LevelInfo{{NumTables: c.freshTables, Size: c.fresh}, {Size: 0}, {Size: c.settled}}
		got := dueFor(levels, c.garbage)
		if want := (duty{c.merge, c.reclaims, c.fresh + c.settled}); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

// openTidy opens a store whose tidier finds room.
func openTidy(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{NoSync: true, Headroom: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("Open: got %v, want nil", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
	})
	return s
}

func putSize(t *testing.T, s *Store, key kvstore.Key, size int) {
	t.Helper()
	var b kvstore.Batch
	b.Put(key, make([]byte, size))
	if err := s.Apply(t.Context(), &b); err != nil {
		t.Fatalf("Apply: got %v, want nil", err)
	}
}

// size returns what the store takes of the disk, in MiB.
func size(t *testing.T, s *Store) int64 {
	t.Helper()
	var n int64
	entries, err := surveyAll(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		n += diskSize(path)
	}
	return n >> 20
}

// TestOverwrittenIsReclaimed overwrites one long value many times: the
// directory becomes small again without anybody asking, however busy the disk
// is.
func TestOverwrittenIsReclaimed(t *testing.T) {
	t.Parallel()
	s := openTidy(t)
	const limit = 600 // MiB
	for i := range 700 {
		putSize(t, s, "memory", 1<<20)
		waited := 0
		for ; size(t, s) > limit; waited++ {
			if waited == 60 {
				t.Fatalf("%d times 1 MiB under one key: the directory has %d MiB after a minute, want at most %d", i+1, size(t, s), limit)
			}
			time.Sleep(time.Second)
		}
	}
	t.Logf("after 700 MiB of overwriting: %d MiB", size(t, s))
}

// TestDeletedIsReclaimed deletes most of a store that is idle afterwards.
func TestDeletedIsReclaimed(t *testing.T) {
	t.Parallel()
	s := openTidy(t)
	for i := range 200 {
		putSize(t, s, kvstore.Key(fmt.Sprint("k", i)), 1<<20)
	}
	for i := range 199 {
		var b kvstore.Batch
		b.Delete(kvstore.Key(fmt.Sprint("k", i)))
		if err := s.Apply(t.Context(), &b); err != nil {
			t.Fatalf("Apply: got %v, want nil", err)
		}
	}
	before := size(t, s)
	if err := s.tidier.tidy(t.Context(), true); err != nil {
		t.Fatalf("tidy: got %v, want nil", err)
	}
	after := size(t, s)
	t.Logf("%d MiB before, %d after", before, after)
	if after > 100 {
		t.Errorf("1 of 200 MiB was kept: the directory has %d MiB, want at most 100", after)
	}
	if item, err := s.Get(t.Context(), "k199"); err != nil || len(item.Value) != 1<<20 {
		t.Errorf("Get of what was kept: got %d bytes, %v, want 1 MiB", len(item.Value), err)
	}
}

// TestMergeUnderScan overwrites and deletes what a running scan has yet to
// come to, and merges tables: the scan still gets it.
func TestMergeUnderScan(t *testing.T) {
	t.Parallel()
	s := openTidy(t)
	keys := []kvstore.Key{"a", "b", "c"}
	for _, key := range keys {
		putSize(t, s, key, 1<<20)
	}
	var seen []kvstore.Key
	err := s.Scan(t.Context(), "", func(item kvstore.Item) error {
		seen = append(seen, item.Key)
		if len(item.Value) != 1<<20 {
			t.Errorf("Scan during a merge: %s has %d bytes, want 1 MiB", item.Key, len(item.Value))
		}
		if len(seen) > 1 {
			return nil
		}
		putSize(t, s, "b", 10)
		var b kvstore.Batch
		b.Delete("c")
		if err := s.Apply(t.Context(), &b); err != nil {
			return err
		}
		for range 2 { // a merge needs two tables
			if err := s.tidier.flush(t.Context()); err != nil {
				return err
			}
		}
		s.tidier.garbage.Store(1 << 40)
		return s.tidier.tidy(t.Context(), true)
	})
	if err != nil || !slices.Equal(seen, keys) {
		t.Errorf("Scan during a merge: got %q, %v, want %q", seen, err, keys)
	}
	if item, err := s.Get(t.Context(), "b"); err != nil || len(item.Value) != 10 {
		t.Errorf("Get(b) after it: got %d bytes, %v, want 10", len(item.Value), err)
	}
	if _, err := s.Get(t.Context(), "c"); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("Get(c) after it: got %v, want ErrNotFound", err)
	}
}

// surveyAll returns the paths of all files in dir.
func surveyAll(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*")) }
