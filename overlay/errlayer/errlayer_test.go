package errlayer_test

import (
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/errlayer"
	"github.com/wsfs/wsfs/overlay/layertest"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// TestLayer checks that a layer under a plan that fails nothing is that layer.
func TestLayer(t *testing.T) {
	layertest.Run(t, layertest.Config{
		New: func(layertest.TB, string) overlay.Upper {
			return errlayer.New(memlayer.New(memlayer.Options{}), &errlayer.Plan{})
		},
		Abilities: layertest.All,
	})
}

// TestSweep checks that a sweep fails each call once, and then ends.
func TestSweep(t *testing.T) {
	var seen []int
	errlayer.Sweep(t, func(t *testing.T, try errlayer.Try) bool {
		l := errlayer.New(memlayer.New(memlayer.Options{}), try.Plan)
		try.Arm()
		err1 := l.Mkdir(t.Context(), "a", overlay.Perm{})
		err2 := l.Mkdir(t.Context(), "b", overlay.Perm{})
		failed, calls := try.Plan.Disarm()
		seen = append(seen, len(calls))
		if failed != (err1 != nil || err2 != nil) {
			t.Errorf("failed is %v, the calls say %v, %v", failed, err1, err2)
		}
		if try.Crash && err1 != nil && err2 == nil {
			t.Errorf("a call after the crash succeeded")
		}
		return failed
	})
	if len(seen) != 6 {
		t.Errorf("the sweeps had %d runs, want 3 and 3", len(seen))
	}
}
