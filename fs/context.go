//go:build linux

package fs

import (
	"context"
	"time"
)

// A request is the context of a FUSE request: it is done when the kernel
// interrupts the request. A channel fits into an interface value, so making
// one allocates nothing.
type request <-chan struct{}

// Deadline reports that a request has none.
func (r request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns the channel that the transport closes on interruption.
func (r request) Done() <-chan struct{} { return r }

// Err returns context.Canceled once the request was interrupted.
func (r request) Err() error {
	select {
	case <-r:
		return context.Canceled
	default:
		return nil
	}
}

// Value returns nil: a request carries none.
func (r request) Value(any) any { return nil }

var _ context.Context = request(nil)
