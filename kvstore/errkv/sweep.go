package errkv

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

// maxSteps bounds a sweep: an operation that makes more calls never ends.
const maxSteps = 10_000

// Sweep runs an operation again and again and has its call 0, then 1, then 2
// ... of the store fail, until a run ends without having met the fault. run
// sets up what the operation needs, wraps the store with inject, performs the
// operation, checks every invariant afterwards (inject.Reset lets the checks
// pass), and returns the operation's error.
//
// Each call fails in three ways: it is not made (ErrUnavailable), it is made and
// the answer is lost (ErrUnavailable), and, for Apply, the store is full
// (ErrFull). Whether the operation did right is for run's checks to decide;
// Sweep itself only wants the run without a fault to succeed.
func Sweep(t *testing.T, run func(t *testing.T, inject *Injector) error) {
	t.Helper()
	for _, way := range ways {
		for step := 0; ; step++ {
			if step == maxSteps {
				t.Fatalf("sweep: the operation makes over %d calls of the store", maxSteps)
			}
			if !sweepStep(t, fmt.Sprintf("%s/%d", way.name, step), Nth(step, way.match, way.fault), run) {
				break
			}
		}
	}
}

// ErrInjected is what the faults of Sweep wrap besides the store's own words.
var ErrInjected = errors.New("errkv: injected")

// ways are the ways in which a call fails in a sweep.
var ways = []struct {
	name  string
	match func(Op) bool
	fault Fault
}{
	{"refused", nil, Fault{Before: injected(kvstore.ErrUnavailable)}},
	{"lost", nil, Fault{After: injected(kvstore.ErrUnavailable)}},
	{"full", OfKind(Apply), Fault{Before: injected(kvstore.ErrFull)}},
}

func injected(err error) error { return fmt.Errorf("%w (%w)", err, ErrInjected) }

// sweepStep makes one run with rule, and reports whether the fault was met.
func sweepStep(t *testing.T, name string, rule Rule, run func(*testing.T, *Injector) error) (met bool) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inject := &Injector{}
		inject.Add(rule)
		err := run(t, inject)
		hit := inject.Hit()
		met = len(hit) > 0
		if !met && err != nil {
			t.Fatalf("the operation without a fault: got %v, want nil", err)
		}
		if met && t.Failed() {
			t.Logf("the fault was at %v; the operation returned %v", hit[0], err)
		}
	})
	return met && !t.Failed()
}
