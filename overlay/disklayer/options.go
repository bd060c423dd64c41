package disklayer

import (
	"log/slog"
	"time"
)

// A Format says in which attributes a layer keeps its marks.
type Format uint8

const (
	// FormatAuto takes the format that the layer has, and for a new layer
	// FormatTrusted if the process may set trusted attributes.
	FormatAuto Format = iota
	// FormatTrusted keeps marks in trusted.overlay.*.
	FormatTrusted
	// FormatUser keeps marks in user.overlay.*.
	FormatUser
)

// Options are what the Open functions can be told. The zero value is good.
type Options struct {
	// ID is what LayerID returns.
	ID string
	// Format is the format of marks; it does not count for a Host.
	Format Format
	// Meta is the directory of what the layer keeps besides its tree, on the
	// same file system; DIR.wsfs if empty. It does not count for a Host.
	Meta string
	// Log gets what happens in the background; nothing if nil.
	Log *slog.Logger
	// MaxDirs bounds the cached directory descriptors; 2048 if 0.
	MaxDirs int
	// SyncDelay is how long a copy-up may wait before the background makes it
	// durable; 2 s if 0, never if negative (until SyncAll, DrainMarks, Close).
	SyncDelay time.Duration

	// fault is called before each step that changes something on disk, with
	// the step's name; an error makes the step fail. For tests.
	fault func(step string) error
	// alone: nobody else in this process uses the work directory, so that
	// Recover sweeps this process' files, too. For tests.
	alone bool
}

// withDefaults returns o with every choice made for the layer at dir.
func (o Options) withDefaults(dir string) Options {
	if o.Meta == "" {
		o.Meta = dir + ".wsfs"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxDirs == 0 {
		o.MaxDirs = 2048
	}
	if o.SyncDelay == 0 {
		o.SyncDelay = 2 * time.Second
	}
	return o
}
