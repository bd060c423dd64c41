package kvlayer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
)

const suiteAbilities = layertest.Links | layertest.Xattrs | layertest.ACLs | layertest.Nodes |
	layertest.Tmpfiles | layertest.Redirects | layertest.Owners

// suiteDev makes the files of each layer a device of their own, apart from those
// of memlayer, which count from 1.
var suiteDev atomic.Uint64

func newSuiteLayer(t layertest.TB, dir string) overlay.Upper {
	t.Helper()
	return suiteLayer(t, memkv.New(), dir, 1<<32+suiteDev.Add(1))
}

func suiteLayer(t layertest.TB, store *memkv.Store, dir string, dev uint64) overlay.Upper {
	t.Helper()
	l, err := New(context.Background(), store, "agents/a/users/u", Options{Segment: "memory", Dev: dev, SweepEvery: -1, Spool: dir})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := l.Check(context.Background()); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return l
}

func reopenSuiteLayer(t layertest.TB, dir string, u overlay.Upper) overlay.Upper {
	t.Helper()
	l := u.(*Layer)
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return suiteLayer(t, l.store.(*memkv.Store), dir, l.opt.Dev)
}

// A frozen layer is a past state.
func freezeSuiteLayer(t layertest.TB, _ string, u overlay.Upper) overlay.Reader {
	t.Helper()
	l := u.(*Layer)
	n, err := l.Commit(context.Background())
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	p, err := l.AsOf(context.Background(), n)
	if err != nil {
		t.Fatalf("AsOf: %v", err)
	}
	return p
}

func TestSuite(t *testing.T) {
	t.Parallel()
	layertest.Run(t, layertest.Config{New: newSuiteLayer, Reopen: reopenSuiteLayer, Abilities: suiteAbilities})
}

func TestOverlaySuite(t *testing.T) {
	t.Parallel()
	layertest.RunOverlay(t, layertest.Config{
		New: newSuiteLayer, Reopen: reopenSuiteLayer, Freeze: freezeSuiteLayer, Abilities: suiteAbilities,
	})
}
