package kvlayer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// watching returns a channel of what is told of name.
func watching(t *testing.T, l *Layer, name overlay.Name) <-chan string {
	t.Helper()
	told := make(chan string, 1000)
	stop, err := l.Watch(t.Context(), name, func(child string) { told <- child })
	do(t, "Watch", err)
	t.Cleanup(stop)
	return told
}

// await waits until want is told, and fails the test for anything else.
func await(t *testing.T, told <-chan string, want string) {
	t.Helper()
	select {
	case got := <-told:
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("told nothing, want %q", want)
	}
}

func TestWatchTellsWhatOthersChange(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ctx := t.Context()
	do(t, "Mkdir", a.Mkdir(ctx, "d", overlay.Perm{Mode: 0o755}))
	root, sub := watching(t, a, overlay.Root), watching(t, a, "d")

	write(t, a, "own", "1") // told to nobody
	write(t, b, "x", "1")   // made, then written
	await(t, root, "x")
	await(t, root, "x")
	write(t, b, "d/y", "1")
	await(t, sub, "y")
	await(t, sub, "y")
	do(t, "Rename", b.Rename(ctx, "d/y", "z", 0))
	await(t, sub, "y")
	await(t, root, "z")
	_, err := b.SetAttr(ctx, "d", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o700})
	do(t, "SetAttr", err)
	await(t, root, "z") // the file itself was touched by its rename
	await(t, root, "d")
	await(t, sub, "")
	do(t, "Remove", b.Remove(ctx, "d"))
	await(t, root, "d")
	await(t, sub, "")
}

// What a conflict made of a handle's own writes is told, too.
func TestWatchTellsOfReplays(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	write(t, a, "m", "1\n")
	h := edit(t, a, "m", overlay.Append, "a\n")
	write(t, b, "m", "2\n")
	told := watching(t, a, overlay.Root)
	do(t, "Flush", h.Flush(t.Context()))
	await(t, told, "m")
	do(t, "Close", h.Close())
}

// breaking is a store whose feed breaks when told to.
type breaking struct {
	*memkv.Store
	breaks atomic.Pointer[context.CancelFunc]
}

func (s *breaking) Watch(ctx context.Context, prefix kvstore.Key, ready func(), fn func(kvstore.Key)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.breaks.Store(&cancel)
	return errors.Join(s.Store.Watch(ctx, prefix, ready, fn), errors.New("feed broke"))
}

func TestWatchOverABrokenFeed(t *testing.T) {
	t.Parallel()
	store := &breaking{Store: memkv.New()}
	a, b := open(t, store), open(t, store)
	told := watching(t, a, overlay.Root)
	(*store.breaks.Load())()
	await(t, told, "") // broken
	await(t, told, "") // back, after a gap
	do(t, "Mkdir", b.Mkdir(t.Context(), "d", overlay.Perm{}))
	await(t, told, "d")
}

func TestWatchWithoutAFeed(t *testing.T) {
	t.Parallel()
	l := open(t, struct{ kvstore.Store }{memkv.New()})
	_, err := l.Watch(t.Context(), overlay.Root, func(string) {})
	if err == nil {
		t.Errorf("Watch on a store without a feed: got nil, want an error")
	}
}
