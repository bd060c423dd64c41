package disklayer

import (
	"io"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
)

// An adopter opens layers for the conformance suite. They are closed and removed
// in the end only: the suite checks an Overlay when its test is over.
type adopter struct {
	Options
	base string // where the layers are
	mu   sync.Mutex
	open []io.Closer
}

func newAdopter(t *testing.T, o Options) *adopter {
	a := &adopter{Options: o, base: t.TempDir()}
	t.Cleanup(func() {
		for _, c := range a.open {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	return a
}

// keep has c closed in the end; of a random run, which checks before it is over,
// with the run.
func (a *adopter) keep(t layertest.TB, c io.Closer) {
	if _, plain := t.(*testing.T); !plain {
		t.Cleanup(func() { c.Close() })
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = append(a.open, c)
}

// place returns where the layer of dir is.
func (a *adopter) place(dir string) place {
	at := filepath.Join(a.base, filepath.Base(dir))
	return place{filepath.Join(at, "upper"), filepath.Join(at, "work")}
}

func (a *adopter) make(t layertest.TB, dir string) overlay.Upper {
	t.Helper()
	u, err := OpenUpper(a.place(dir).dir, a.place(dir).work, a.Options)
	if err != nil {
		t.Fatalf("OpenUpper: %v", err)
	}
	a.keep(t, u)
	if _, err := u.Recover(tbContext, noOrigins); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	return u
}

func (a *adopter) reopen(t layertest.TB, dir string, u overlay.Upper) overlay.Upper {
	t.Helper()
	if err := u.(*Upper).Check(tbContext); err != nil {
		t.Errorf("Check before Reopen: %v", err)
	}
	if err := u.(*Upper).Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return a.make(t, dir)
}

func (a *adopter) freeze(t layertest.TB, dir string, u overlay.Upper) overlay.Reader {
	t.Helper()
	if err := u.(*Upper).Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	f, err := OpenFrozen(a.place(dir).dir, a.Options)
	if err != nil {
		t.Fatalf("OpenFrozen: %v", err)
	}
	a.keep(t, f)
	return f
}

func (a *adopter) config(abilities layertest.Ability) layertest.Config {
	return layertest.Config{New: a.make, Reopen: a.reopen, Freeze: a.freeze, Abilities: abilities}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	need(t, "root")
	layertest.Run(t, newAdopter(t, Options{}).config(layertest.All))
}

func TestOverlaySuite(t *testing.T) {
	t.Parallel()
	need(t, "root")
	layertest.RunOverlay(t, newAdopter(t, Options{}).config(layertest.All))
}
