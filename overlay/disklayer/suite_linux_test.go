package disklayer

import (
	"path/filepath"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
)

// suiteOptions are those the conformance suite runs with.
type suiteOptions struct{ Options }

func (o suiteOptions) open(t layertest.TB, dir string) overlay.Upper {
	t.Helper()
	u, err := OpenUpper(filepath.Join(dir, "upper"), filepath.Join(dir, "work"), o.Options)
	if err != nil {
		t.Fatalf("OpenUpper: %v", err)
	}
	if _, err := u.Recover(tbContext, noOrigins); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func (o suiteOptions) reopen(t layertest.TB, dir string, u overlay.Upper) overlay.Upper {
	t.Helper()
	if err := u.(*Upper).Check(tbContext); err != nil {
		t.Errorf("Check before Reopen: %v", err)
	}
	if err := u.(*Upper).Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return o.open(t, dir)
}

func (o suiteOptions) freeze(t layertest.TB, dir string, u overlay.Upper) overlay.Reader {
	t.Helper()
	if err := u.(*Upper).Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	f, err := OpenFrozen(filepath.Join(dir, "upper"), o.Options)
	if err != nil {
		t.Fatalf("OpenFrozen: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (o suiteOptions) config(abilities layertest.Ability) layertest.Config {
	return layertest.Config{New: o.open, Reopen: o.reopen, Freeze: o.freeze, Abilities: abilities}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	need(t, "root")
	layertest.Run(t, suiteOptions{}.config(layertest.All))
}
