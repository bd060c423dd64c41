package transport

import (
	goruntime "runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tick is how long all readers have to be stuck before a spare comes: long
	// against a round trip, short against what people notice. While requests
	// are answered it grows to slowTick, so that looking costs nothing.
	tick     = time.Millisecond
	slowTick = 16 * tick

	// calm is for how long no spare has to have been needed before one leaves:
	// long enough that a store that is slow now and then does not cost its
	// neighbours a tick each time.
	calm = 50 * time.Millisecond

	// rest is the part of its time that some reader has to have for waiting,
	// or requests come faster than they are handled.
	rest = 0.1
	// computing is the part of the readers' time that they are on a CPU for if
	// that is what keeps them. What is less goes to waiting: for a disk or a
	// store if most switches of threads are voluntary, for a CPU otherwise.
	computing = 0.75
)

// A look is what the overseer saw of the crew.
type look struct {
	at      time.Duration // now
	usage   usage         // of the process
	readers map[*reader]sight
}

// A usage is what a process has had of the CPUs, and how often its threads have
// left them: to wait for something, and for others.
type usage struct {
	cpu                    time.Duration
	voluntary, involuntary int64
}

// used returns the usage of this process.
func used() usage {
	var u unix.Rusage
	// It fails for no argument like this.
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return usage{
		cpu:       time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		voluntary: u.Nvcsw, involuntary: u.Nivcsw,
	}
}

// A sight is what a look saw of a reader.
type sight struct {
	unique uint64        // the request that it was handling, 0 for none
	served uint64        // requests that it has answered
	waited time.Duration // for requests, in all
}

// oversee has spares join and leave, and keeps CPUs awake, until idle is
// closed. It sleeps while no requests come.
func (c *crew) oversee(idle <-chan struct{}) {
	v := newVigil(c.log)
	defer v.keep(false)
	pace := tick
	clock := time.NewTimer(pace)
	defer clock.Stop()
	before := c.look()
	for {
		select {
		case <-clock.C:
		case <-c.stirred:
			pace = tick
		case <-idle:
			return
		}
		after := c.look()
		requests, stuck := after.since(before)
		switch {
		case stuck:
			c.addSpare()
			pace = tick
		case pace < slowTick:
			pace *= 2
		default:
			v.keep(requests >= rush)
			c.weigh(before, after)
			if requests == 0 && c.sleep() {
				continue
			}
		}
		before = after
		clock.Reset(pace)
	}
}

// sleep has the next request stir the overseer, unless all readers are busy
// and none may come. It reports whether the overseer may wait for it.
func (c *crew) sleep() bool {
	c.quiet.Store(true)
	if c.busy.Load() < c.size.Load() {
		return true
	}
	c.quiet.Store(false)
	return false
}

// look looks at all readers.
func (c *crew) look() look {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := look{at: now(), usage: used(), readers: make(map[*reader]sight, len(c.readers))}
	for _, r := range c.readers {
		l.readers[r] = r.seen(l.at)
	}
	return l
}

// since returns how many requests were answered since before, and whether
// every reader handles the one that it handled before.
func (l look) since(before look) (requests uint64, stuck bool) {
	stuck = len(l.readers) > 0
	for r, s := range l.readers {
		b := before.readers[r]
		requests += s.served - b.served
		stuck = stuck && s.unique != 0 && s.unique == b.unique
	}
	return requests, stuck
}

// resting returns how many readers had nothing to do on average since before.
func (l look) resting(before look) float64 {
	var waited time.Duration
	for r, s := range l.readers {
		waited += s.waited - before.readers[r].waited
	}
	return float64(waited) / float64(l.at-before.at)
}

// lack returns how many readers too few there were since before: one, if none
// had any rest and another could have done more, on a CPU that clients leave or
// while the others wait for a disk; minus one, if the others would have had rest
// without one.
func (l look) lack(before look, cpus int) int {
	size, resting := len(l.readers), l.resting(before)
	switch {
	case resting >= 1+rest:
		return -1
	case resting >= rest:
		return 0
	case size < cpus-1, l.waits(before):
		return 1
	}
	return 0
}

// waits reports whether the readers mostly waited for a disk or a store since
// before, if not for requests.
func (l look) waits(before look) bool {
	span := time.Duration(len(l.readers)) * (l.at - before.at)
	return float64(l.usage.cpu-before.usage.cpu) < computing*float64(span) &&
		l.usage.voluntary-before.usage.voluntary > l.usage.involuntary-before.usage.involuntary
}

// weigh has a spare join that was lacking between two looks, and one leave that
// nobody has needed for long.
func (c *crew) weigh(before, after look) {
	switch after.lack(before, goruntime.NumCPU()) {
	case 1:
		c.addSpare()
	case 0:
		c.needed.Store(int64(after.at))
	case -1:
		if after.at-time.Duration(c.needed.Load()) >= calm {
			c.surplus.Store(true)
		}
	}
}

// dismiss reports whether the calling spare, which has just answered, is to
// leave.
func (c *crew) dismiss() bool { return c.surplus.Load() && c.surplus.CompareAndSwap(true, false) }

// addSpare starts another reader unless there are as many as may be, or the
// last reader has left since somebody looked.
func (c *crew) addSpare() {
	c.needed.Store(int64(now()))
	c.surplus.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= c.spares || len(c.readers) == 0 {
		return
	}
	c.running++
	c.started.Add(1)
	c.startLocked(&reader{tally: c.tallies[0], spare: true})
}

// lengthy reports whether requests of the kind always take long, since they
// wait for a disk.
func lengthy(op uint32) bool {
	return op == opFsync || op == opFsyncDir || op == opSyncFS || op == opCopyFileRange
}
