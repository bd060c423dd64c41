package errkv

import (
	"fmt"
	"slices"
	"sync"

	"github.com/wsfs/wsfs/kvstore"
)

// A Kind is a method of a store.
type Kind string

// The methods that can fail.
const (
	Get   Kind = "Get"
	Scan  Kind = "Scan"
	Apply Kind = "Apply"
	Watch Kind = "Watch"
)

// An Op is the record of a call.
type Op struct {
	Kind Kind
	// Key is the key of Get, the prefix of Scan and Watch, and the first key
	// of Apply's batch.
	Key kvstore.Key
	// Keys are all keys of Apply's batch, in the batch's order.
	Keys []kvstore.Key
	// N counts calls from 0: all those that the Injector saw before.
	N int
}

// String returns the record as a failed test prints it.
func (op Op) String() string {
	if op.Kind == Apply {
		return fmt.Sprintf("call %d, Apply of %.60q", op.N, op.Keys)
	}
	return fmt.Sprintf("call %d, %s(%.60q)", op.N, op.Kind, op.Key)
}

// Touches reports whether the call names key.
func (op Op) Touches(key kvstore.Key) bool {
	return op.Key == key || slices.Contains(op.Keys, key)
}

func applyOp(b *kvstore.Batch) Op {
	op := Op{Kind: Apply}
	for _, o := range b.Ops {
		op.Keys = append(op.Keys, o.Key)
	}
	if len(op.Keys) > 0 {
		op.Key = op.Keys[0]
	}
	return op
}

// A Fault is how a call fails. The zero value lets it pass.
type Fault struct {
	// Before is returned instead of making the call.
	Before error
	// After is returned once the call was made, whatever it gave: an answer
	// that was lost on the way.
	After error
}

// A Rule decides what becomes of a call. It is called with the Injector's lock
// held, in the order of the calls.
type Rule func(Op) Fault

// An Injector decides for every call of its stores. The zero value lets all of
// them pass and records them.
type Injector struct {
	mu    sync.Mutex
	rules []Rule // protected by mu
	calls []Op   // protected by mu
	hit   []Op   // protected by mu; calls that failed
}

// Add adds a rule. The first rule that gives a fault decides.
func (in *Injector) Add(rule Rule) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rules = append(in.rules, rule)
}

// Reset removes all rules. What was recorded stays.
func (in *Injector) Reset() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rules = nil
}

// Calls returns the calls so far.
func (in *Injector) Calls() []Op {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.calls)
}

// Hit returns the calls so far that a rule made fail.
func (in *Injector) Hit() []Op {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.hit)
}

// next records op and decides about it.
func (in *Injector) next(op Op) Fault {
	in.mu.Lock()
	defer in.mu.Unlock()
	op.N = len(in.calls)
	in.calls = append(in.calls, op)
	for _, rule := range in.rules {
		if fault := rule(op); fault != (Fault{}) {
			in.hit = append(in.hit, op)
			return fault
		}
	}
	return Fault{}
}

// Nth returns a rule by which the n-th call from now that match accepts, from
// 0, fails with fault, and no other. A nil match accepts every call.
func Nth(n int, match func(Op) bool, fault Fault) Rule {
	return func(op Op) Fault {
		if match != nil && !match(op) {
			return Fault{}
		}
		n--
		if n == -1 {
			return fault
		}
		return Fault{}
	}
}

// Each returns a rule by which every call that match accepts fails with fault.
func Each(match func(Op) bool, fault Fault) Rule {
	return func(op Op) Fault {
		if match(op) {
			return fault
		}
		return Fault{}
	}
}

// OfKind accepts calls of the given methods.
func OfKind(kinds ...Kind) func(Op) bool {
	return func(op Op) bool { return slices.Contains(kinds, op.Kind) }
}
