//go:build linux

package fs

import (
	"context"
	"time"
)

// A request is the context of a FUSE request, and never done. The kernel
// interrupts a request for every signal that its caller gets, handled ones
// (timers, children, Go's preemption) like deadly ones, and does not try again:
// what the daemon answers is what the program sees. On a local disk no call on
// a file fails with EINTR, and few programs expect it of mkdir or close. So
// interruptions are not looked at; what a layer waits for has its own bound.
type request <-chan struct{}

// Deadline reports that a request has none.
func (request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns nil: a request is never done.
func (request) Done() <-chan struct{} { return nil }

// Err returns nil.
func (request) Err() error { return nil }

// Value returns nil: a request carries none.
func (request) Value(any) any { return nil }

var _ context.Context = request(nil)
