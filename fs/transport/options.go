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

	// Readers is the number of readers; 0 stands for one per CPU that the
	// process may use, at most DefaultReaders.
	Readers int

	// Unpinned lets the readers' threads always run where the scheduler puts
	// them; without it they are pinned to a CPU each while CPUs are idle.
	Unpinned bool

	// Spares bounds the readers that stand in while all others are stuck in a
	// handler; 0 stands for DefaultSpares.
	Spares int

	// Clone gives each reader its own clone of the device, so that answers of
	// different readers do not meet on one kernel lock.
	Clone bool

	// Grace is how long Unmount waits for the last request to be answered
	// before it aborts the connection; 0 stands for DefaultGrace.
	Grace time.Duration

	// Log receives what goes wrong while serving; nil is slog.Default().
	Log *slog.Logger
}

const (
	// DefaultReaders bounds the readers. The kernel wakes readers in
	// turn, so more than there is work for only spread it over cold CPUs.
	DefaultReaders = 8
	// DefaultSpares bounds the memory that handlers which hang can take: a
	// reader's buffers are twice MaxWrite.
	DefaultSpares = 64
	// DefaultGrace is the time that Unmount gives handlers to end.
	DefaultGrace = 5 * time.Second
)

// withDefaults returns o with each zero field set to its default.
func (o Options) withDefaults() Options {
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
