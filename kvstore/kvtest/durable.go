package kvtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

// durableCases are those that open a store again.
var durableCases = []struct {
	name string
	run  func(t *testing.T, open Open)
}{
	{"Reopen", testReopen},
	{"VersionsGrowReopened", testVersionsGrowReopened},
}

func testReopen(t *testing.T, open Open) {
	s := open(t)
	for i, n := range sizes {
		apply(t, s, func(b *kvstore.Batch) { b.Put(kvstore.Key(fmt.Sprintf("size/%03d", i)), pattern(n, byte(i))) })
	}
	put(t, s, "gone", "x")
	remove(t, s, "gone")
	closeStore(t, s)
	for range 3 {
		s = open(t)
		wantGone(t, s, "gone")
		for i, n := range sizes {
			key := kvstore.Key(fmt.Sprintf("size/%03d", i))
			if got := get(t, s, key).Value; !bytes.Equal(got, pattern(n, byte(i))) {
				t.Errorf("Get(%q) of a reopened store: got %d other bytes, want %d", key, len(got), n)
			}
		}
		closeStore(t, s)
	}
}

// testVersionsGrowReopened deletes a key, which then is all that the store had,
// and opens it again: even so a version is never given twice.
func testVersionsGrowReopened(t *testing.T, open Open) {
	var last uint64
	for i := range 6 {
		s := open(t)
		wantGone(t, s, "a")
		put(t, s, "a", "same")
		v := get(t, s, "a").Version
		if v <= last {
			t.Fatalf("version after reopening %d times: got %d, want over %d", i, v, last)
		}
		last = v
		remove(t, s, "a")
		closeStore(t, s)
	}
}
