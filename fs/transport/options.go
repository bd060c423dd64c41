package transport

import (
	"log/slog"
	"time"
)

// Options says how a mount is served. The zero value is right for every use
// but measurements.
type Options struct {
	// Plain serves with go-fuse's fuse.Server instead of this package's loop.
	// It is also taken, without being asked for, where the mount's options
	// want what only fuse.Server does (SingleThreaded).
	Plain bool

	// Readers is the number of readers that always stand by; 0 stands for one.
	Readers int

	// Spares bounds the readers that join while those are stuck in handlers, or
	// cannot keep up; 0 stands for DefaultSpares.
	Spares int

	// Grace is how long Unmount waits for the last request to be answered
	// before it aborts the connection; 0 stands for DefaultGrace.
	Grace time.Duration

	// Log receives what goes wrong while serving; nil is slog.Default().
	Log *slog.Logger
}

const (
	// DefaultSpares bounds the memory that handlers which hang can take: a
	// reader's buffers are twice MaxWrite.
	DefaultSpares = 64
	// DefaultGrace is the time that Unmount gives handlers to end.
	DefaultGrace = 5 * time.Second
)

// withDefaults returns o with each zero field set to its default.
func (o Options) withDefaults() Options {
	if o.Readers <= 0 {
		o.Readers = 1
	}
	if o.Spares <= 0 {
		o.Spares = DefaultSpares
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
