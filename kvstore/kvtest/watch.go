package kvtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

var watchCases = []testCase{
	{"Watch", testWatch},
	{"WatchSeesTheChange", testWatchSeesTheChange},
	{"WatchSlow", testWatchSlow},
	{"WatchClosed", testWatchClosed},
}

// watch watches prefix until the test ends, and returns when the watch is
// ready. Its function gets every key.
func watch(t *testing.T, s kvstore.Store, prefix kvstore.Key, fn func(kvstore.Key)) (ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.(kvstore.Watcher).Watch(ctx, prefix, func() { close(ready) }, fn)
	}()
	t.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("Watch(%q): got %v before it was ready", prefix, err)
	}
	return done
}

// testWatch has writers change keys under a prefix and beside it: every one of
// the first kind is told, none of the others.
func testWatch(t *testing.T, s kvstore.Store) {
	put(t, s, "in/before", "")
	var mu sync.Mutex
	got := map[kvstore.Key]bool{}
	last := make(chan struct{}, 16)
	watch(t, s, "in/", func(key kvstore.Key) {
		mu.Lock()
		defer mu.Unlock()
		got[key] = true
		if key == "in/last" {
			last <- struct{}{}
		}
	})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 20 {
				put(t, s, kvstore.Key(fmt.Sprintf("in/%d/%d", w, i)), "x")
				put(t, s, kvstore.Key(fmt.Sprintf("in%d/%d", w, i)), "x")
			}
		})
	}
	wg.Wait()
	remove(t, s, "in/before")
	put(t, s, "in/last", "")
	<-last
	waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 3*20+2 })
	mu.Lock()
	defer mu.Unlock()
	for w := range 3 {
		for i := range 20 {
			if key := kvstore.Key(fmt.Sprintf("in/%d/%d", w, i)); !got[key] {
				t.Errorf("Watch(in/) did not tell of %q", key)
			}
		}
	}
	if !got["in/before"] {
		t.Errorf("Watch(in/) did not tell of the deletion of in/before")
	}
	if len(got) != 3*20+2 {
		t.Errorf("Watch(in/): got %d keys, want %d: %v", len(got), 3*20+2, got)
	}
}

// testWatchSeesTheChange reads each key that it is told of.
func testWatchSeesTheChange(t *testing.T, s kvstore.Store) {
	told := make(chan string, 1000)
	watch(t, s, "", func(key kvstore.Key) {
		item, err := s.Get(t.Context(), key)
		if err != nil {
			told <- err.Error()
			return
		}
		told <- string(item.Value)
	})
	for i := range 50 {
		want := fmt.Sprint(i)
		put(t, s, "a", want)
		for got := ""; got != want; {
			got = <-told
			if got != want && got != fmt.Sprint(i-1) {
				t.Fatalf("Get of a key that Watch told of: got %q, want %q", got, want)
			}
		}
	}
}

// testWatchSlow has a watcher that does nothing while many changes are made:
// they are not held up, and it hears of all of them.
func testWatchSlow(t *testing.T, s kvstore.Store) {
	const n = 5000
	resume, told := make(chan struct{}), make(chan kvstore.Key, 2*n)
	watch(t, s, "", func(key kvstore.Key) {
		<-resume
		told <- key
	})
	for start := 0; start < n; start += n / 5 {
		apply(t, s, func(b *kvstore.Batch) {
			for i := start; i < start+n/5; i++ {
				b.Put(kvstore.Key(fmt.Sprint("slow/", i)), nil)
			}
		})
	}
	close(resume)
	seen := map[kvstore.Key]bool{}
	for len(seen) < n {
		seen[<-told] = true
	}
}

// testWatchClosed ends watches: by their context, and by Close.
func testWatchClosed(t *testing.T, s kvstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	err := s.(kvstore.Watcher).Watch(ctx, "", cancel, func(kvstore.Key) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Watch with a context canceled when ready: got %v, want Canceled", err)
	}
	ended := watch(t, s, "", func(kvstore.Key) {})
	if err := s.Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
	if err := <-ended; !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Watch after Close: got %v, want ErrClosed", err)
	}
}
