package kvlayer

import (
	"crypto/rand"
	"log/slog"
	"os"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A Policy is a way to commit a file that somebody else has committed since it
// was opened.
type Policy uint8

const (
	// Append puts what O_APPEND handles wrote behind the newer content. It
	// does not fit if the file was changed in any other way.
	Append Policy = iota + 1
	// Merge joins both changes line by line. It does not fit if they touch
	// the same lines, if the file is not text, or is over 1 MiB.
	Merge
	// Sidecar keeps the newer content and writes the handle's own to
	// NAME.conflict-HOST-TIME beside it. It always fits.
	Sidecar
	// Fail refuses the commit with ESTALE. What was written stays in the
	// handle; its last Close writes it to a sidecar.
	Fail
)

// A History says how long past commits can be read. A commit is kept if either
// limit keeps it, or a pin does.
type History struct {
	Commits uint64        // the newest so many of the namespace; 1,000 if 0
	Age     time.Duration // all that are younger; 24 hours if 0
}

// Options are what New takes; the zero value is usable.
type Options struct {
	// Segment is the part of the namespace that the layer shows.
	Segment string
	// Dev is Attr.Dev of every file.
	Dev uint64
	// ID is what LayerID returns.
	ID string

	// Host, Session and Who are kept with every commit. Host is os.Hostname
	// if empty; it also names sidecars.
	Host    string
	Session string
	Who     string
	// Owner names this layer among all on the same store, in this process and
	// others; two that are open at once must not share it. Random if empty.
	Owner string

	// Conflict are the policies to try, in order; Append, Merge, Sidecar if
	// empty. Where none fits it is as with Fail.
	Conflict []Policy
	// RootPerm is what the root directory starts with, if the segment is new;
	// mode 0755 if Mode is 0.
	RootPerm overlay.Perm

	// Quota is how many bytes the files of the whole namespace may hold, over
	// all segments; no limit if 0. Over it: EDQUOT.
	Quota   int64
	History History

	// Timeout bounds each call of the store; 5 s if 0.
	Timeout time.Duration
	// Lease is for how long the store keeps content for this layer's open
	// files after the layer last said that it lives; 10 min if 0. Clocks of
	// hosts that share a store must agree to a fraction of it.
	Lease time.Duration
	// SweepEvery is how often what nobody needs any more is removed from the
	// store, the first time soon after New; 10 min if 0, only by Sweep if
	// negative.
	SweepEvery time.Duration

	// Spool is the directory for content that was written and not committed,
	// as far as it does not fit in Memory; os.TempDir() if empty. New makes it.
	Spool string
	// Memory is how many bytes of uncommitted content are held in memory;
	// 16 MiB if 0.
	Memory int64

	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Log gets what happens besides calls, and why the store failed; nothing
	// if nil.
	Log *slog.Logger
}

// withDefaults returns o with every choice made.
func (o Options) withDefaults() Options {
	setDefault(&o.Host, hostname())
	setDefault(&o.Owner, rand.Text())
	setDefault(&o.RootPerm.Mode, 0o755)
	setDefault(&o.History.Commits, 1000)
	setDefault(&o.History.Age, 24*time.Hour)
	setDefault(&o.Timeout, 5*time.Second)
	setDefault(&o.Lease, 10*time.Minute)
	setDefault(&o.SweepEvery, 10*time.Minute)
	setDefault(&o.Spool, os.TempDir())
	setDefault(&o.Memory, 16<<20)
	if len(o.Conflict) == 0 {
		o.Conflict = []Policy{Append, Merge, Sidecar}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// hostname is what sidecars are named with if the caller gives nothing.
func hostname() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "unknown"
	}
	return host
}
