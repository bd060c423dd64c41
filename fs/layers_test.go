//go:build linux

package fs_test

import (
	"testing"
	"time"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// A seed is a file of the project below the mount. A name that ends in a slash
// is a directory.
type seed struct {
	name    string
	mode    uint32
	content string
}

// A kind is a kind of layer that the suites run on.
type kind struct {
	name string
	// layer returns a tree over a project that holds the seeds.
	layer func(t testing.TB, project ...seed) overlay.Layer
}

// kinds are all of them.
var kinds = []kind{{"mem", memTree}}

// memTree returns a tree in memory over a project in memory.
func memTree(t testing.TB, project ...seed) overlay.Layer {
	t.Helper()
	lower := memlayer.New(memlayer.Options{Source: overlay.Host})
	for _, s := range project {
		put(t, lower, s)
	}
	return overlay.New(memlayer.New(memlayer.Options{}), lower)
}

// put makes s in a layer in memory.
func put(t testing.TB, l overlay.Layer, s seed) {
	t.Helper()
	ctx := t.Context()
	if n := len(s.name) - 1; s.name[n] == '/' {
		must(t, l.Mkdir(ctx, overlay.Name(s.name[:n]), overlay.Perm{Mode: s.mode}))
		return
	}
	w, err := l.OpenFile(ctx, overlay.Name(s.name), overlay.Create|overlay.Truncate, overlay.Perm{Mode: s.mode})
	must(t, err)
	_, err = w.WriteAt([]byte(s.content), 0)
	must(t, err)
	must(t, w.Close())
}

// eventually waits until ok, and fails the test if that takes seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 5 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
