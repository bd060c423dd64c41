package errlayer

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

// A Plan says which calls fail. Several layers may share one: their calls then
// count together. The zero Plan lets everything through.
type Plan struct {
	mu     sync.Mutex
	armed  bool     // guarded by mu: the plan fails calls
	let    int      // guarded by mu: calls that still get through
	crash  bool     // guarded by mu: all calls after the first fail, too
	failed bool     // guarded by mu: a call has failed
	calls  []string // guarded by mu: since Arm
}

// errno is what calls fail with. Nothing in the repository makes up this one.
const errno = syscall.ENOSPC

// Arm has the plan let n calls through and fail the next: crash says whether
// every call after that fails, too.
func (p *Plan) Arm(n int, crash bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.let, p.crash, p.failed, p.calls = true, n, crash, false, nil
}

// Disarm has the plan let everything through. It reports whether a call failed
// since Arm, and returns the calls that were made, the last of which failed.
func (p *Plan) Disarm() (failed bool, calls []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	return p.failed, p.calls
}

// step is asked before each call of op on name.
func (p *Plan) step(op string, name overlay.Name) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return nil
	}
	if p.failed && !p.crash {
		return nil
	}
	if !p.failed {
		p.calls = append(p.calls, fmt.Sprintf("%s(%s)", op, name))
	}
	if p.let > 0 {
		p.let--
		return nil
	}
	p.failed = true
	return overlay.PathError(op, name, errno)
}

// Injected reports whether err came from a Plan.
func Injected(err error) bool { return errors.Is(err, errno) }

// A Try is one run of an operation in a sweep.
type Try struct {
	Plan  *Plan
	Crash bool
	// Steps is how many calls the plan let through.
	Steps int
}

// maxSteps bounds a sweep: an operation with more is one that never ends.
const maxSteps = 500

// Sweep calls run with every way an operation can fail, as subtests. run sets
// up afresh, calls try.Arm, does the operation, calls try.Disarm, and checks
// what is left; it returns whether a call failed. The sweep ends with the first
// run in which none did.
func Sweep(t *testing.T, run func(t *testing.T, try Try) (failed bool)) {
	for _, crash := range []bool{false, true} {
		for n := 0; ; n++ {
			if n > maxSteps {
				t.Fatalf("the operation has more than %d steps", maxSteps)
			}
			again := false
			t.Run(fmt.Sprintf("crash=%v/step=%d", crash, n), func(t *testing.T) {
				again = run(t, Try{&Plan{}, crash, n})
			})
			if !again {
				break
			}
		}
	}
}

// Arm arms the plan as the try says.
func (t Try) Arm() { t.Plan.Arm(t.Steps, t.Crash) }
