package badgerkv_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

// TestKill kills a process that writes, again and again: every batch that it
// was told is done is there, and of the one after it all or nothing.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := 0
	for round := range 20 {
		c := start(t, "write", dir)
		for range 1 + round*13%97 {
			acknowledged = atoi(t, c.line())
		}
		if last := c.kill(); last != "" {
			acknowledged = atoi(t, last)
		}
		acknowledged = checkBatches(t, dir, acknowledged)
	}
	t.Logf("%d batches in 20 lives", acknowledged)
}

// TestKillLong kills a process that writes and merges tables.
func TestKillLong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes a gigabyte")
	}
	dir := t.TempDir()
	acknowledged := 0
	for round := range 4 {
		c := start(t, "long", dir)
		for range 35 + 7*round {
			acknowledged = atoi(t, c.line())
		}
		if last := c.kill(); last != "" {
			acknowledged = atoi(t, last)
		}
		s := open(t, dir)
		last, err := lastBatch(t.Context(), s)
		if err != nil || last != acknowledged && last != acknowledged+1 {
			t.Fatalf("after kill: got last batch %d, %v, want %d or one more", last, err, acknowledged)
		}
		for _, op := range longBatch(last).Ops {
			item, err := s.Get(t.Context(), op.Key)
			if err != nil || !bytes.Equal(item.Value, op.Value) {
				t.Fatalf("after kill: Get(%s): got %d bytes that begin with %.8q, %v, want those of batch %d",
					op.Key, len(item.Value), item.Value, err, last)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: got %v, want nil", err)
		}
		acknowledged = last
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkBatches opens the store in dir and checks that it holds the batches up to
// acknowledged, perhaps one more, and nothing else. It returns the last one.
func checkBatches(t *testing.T, dir string, acknowledged int) int {
	t.Helper()
	s := open(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
	}()
	last, err := lastBatch(t.Context(), s)
	if err != nil || last != acknowledged && last != acknowledged+1 {
		t.Fatalf("after kill: got last batch %d, %v, want %d or one more", last, err, acknowledged)
	}
	n, i := 1, 0
	err = s.Scan(t.Context(), "batch/", func(item kvstore.Item) error {
		if item.Key != batchKey(n, i) || !bytes.Equal(item.Value, batchValue(n)) {
			t.Fatalf("after kill: got key %q, %d bytes, want batch %d key %d, %d bytes",
				item.Key, len(item.Value), n, i, len(batchValue(n)))
		}
		if i++; i == batchKeys(n) {
			n, i = n+1, 0
		}
		return nil
	})
	if err != nil || n != last+1 || i != 0 {
		t.Fatalf("after kill: got batches up to %d and %d keys more, %v, want %d", n-1, i, err, last)
	}
	return last
}
