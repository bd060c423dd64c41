package transport

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLack(t *testing.T) {
	t.Parallel()
	readers := []*reader{{}, {}, {}, {}}
	const span = 16 * time.Millisecond
	idle, busy := usage{cpu: span / 4, voluntary: 60, involuntary: 4}, usage{cpu: span / 2, voluntary: 4, involuntary: 60}
	for _, c := range []struct {
		what   string
		waited []time.Duration // of each reader within span
		usage  usage           // within span
		cpus   int
		want   int
	}{
		{"one reader at half its time", []time.Duration{span / 2}, idle, 2, 0},
		{"no rest, computing, clients have the other CPU", []time.Duration{0}, usage{cpu: span, voluntary: 9}, 2, 0},
		{"no rest, waiting for a CPU", []time.Duration{0}, busy, 2, 0},
		{"no rest, computing, CPUs to spare", []time.Duration{0}, busy, 4, 1},
		{"no rest, waiting for a disk", []time.Duration{0}, idle, 2, 1},
		{"no rest, waiting for a disk, one CPU", []time.Duration{0}, idle, 1, 1},
		{"three that wait for a disk", []time.Duration{0, 0, 0}, idle, 2, 1},
		{"two at half their time", []time.Duration{span / 2, span / 2}, idle, 4, 0},
		{"one of two rests", []time.Duration{span, span / 4}, idle, 4, -1},
		{"no requests", []time.Duration{span}, usage{}, 2, 0},
		{"no requests of two", []time.Duration{span, span}, usage{}, 2, -1},
	} {
		before := look{at: time.Hour, usage: usage{time.Minute, 1000, 2000}, readers: map[*reader]sight{}}
		after := look{at: before.at + span, usage: before.usage, readers: map[*reader]sight{}}
		after.usage.cpu += c.usage.cpu
		after.usage.voluntary += c.usage.voluntary
		after.usage.involuntary += c.usage.involuntary
		for i, w := range c.waited {
			before.readers[readers[i]] = sight{waited: time.Second}
			after.readers[readers[i]] = sight{waited: time.Second + w}
		}
		if got := after.lack(before, c.cpus); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

// TestSparesJoinWhereHandlersWait lets handlers take a while each, none long
// enough to be stuck: readers join until requests are handled side by side.
func TestSparesJoinWhereHandlersWait(t *testing.T) {
	t.Parallel()
	fs := newTestFS()
	fs.pause = tick / 2
	s := serve(t, fs, Options{})
	load := startClient(t, "bench", s.Mountpoint(), "getattr", "16", "2s")
	eventually(t, "spares join", func() bool { return s.Stats().Spares >= 3 })
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "spares are gone", func() bool {
		var st unix.Stat_t
		return unix.Stat(s.Mountpoint()+"/file", &st) == nil && s.Stats().Spares == 0
	})
}

// TestLengthyRequestsBringASpare: somebody waits for requests while an fsync is
// handled, from its beginning.
func TestLengthyRequestsBringASpare(t *testing.T) {
	t.Parallel()
	c := &crew{stirred: make(chan struct{}, 1), spares: 0}
	c.size.Store(1)
	for _, op := range []struct {
		op   uint32
		want bool
	}{{opFsync, true}, {opInterrupt, false}} {
		c.needed.Store(0)
		c.enter(op.op)
		if got := c.needed.Load() != 0; got != op.want {
			t.Errorf("%s: a spare is asked for: got %v, want %v", opName(op.op), got, op.want)
		}
		c.leave()
	}
}
