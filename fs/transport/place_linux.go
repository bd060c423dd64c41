package transport

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// period is how often it is decided where readers run while requests come.
	period = 25 * time.Millisecond

	// longWait is how long a reader that has been woken may wait for its CPU on
	// average. On its own CPU it waits until the client that woke it sleeps,
	// some microseconds; behind a program that computes it waits for that
	// one's time slice, some milliseconds.
	longWait = 50 * time.Microsecond
	// shareWait is the part of a period that waits have to add up to before
	// they count at all.
	shareWait = period / 25

	// shortTrial and longTrial bound the time between two attempts to pin.
	shortTrial = 500 * time.Millisecond
	longTrial  = 30 * time.Second
)

// A placement decides whether readers are pinned. Pinned readers halve a round
// trip while CPUs are idle, since one of the two wake-ups stays on its CPU; but
// they cannot leave a CPU on which something else computes, and then a round
// trip takes up to a hundred times as long. So pinning is tried, given up when
// readers have to wait, and tried again later.
type placement struct {
	pinned bool
	trial  time.Duration // when to pin next
	pause  time.Duration // from giving up to the next trial
	held   time.Duration // periods with requests since then, none of them waited
}

// A load is what a reader's thread has been through.
type load struct {
	wait  time.Duration // runnable, but not running
	turns uint64        // times it got the CPU
}

// next returns whether to pin from now on, after readers have been through
// loads within one period.
func (p *placement) next(now time.Duration, loads []load) bool {
	waits := false
	for _, l := range loads {
		waits = waits || l.wait > shareWait && l.wait > longWait*time.Duration(l.turns)
	}
	switch {
	case p.pinned && waits:
		p.pause = min(max(2*p.pause, shortTrial), longTrial)
		p.pinned, p.trial = false, now+p.pause
	case p.pinned:
		if p.held += period; p.held > p.pause {
			p.pause = 0 // it has held for longer than it was waited for
		}
	case !p.pinned && now >= p.trial && !waits:
		p.pinned, p.held = true, 0
	}
	return p.pinned
}

// place pins the readers, or lets them go, and keeps CPUs awake, until idle is
// closed.
func (c *crew) place(idle <-chan struct{}) {
	var p placement
	v := newVigil(c.log)
	defer v.keep(false)
	before := map[*reader]load{}
	clock := time.NewTimer(period)
	defer clock.Stop()
	for {
		select {
		case <-clock.C:
		case <-c.stirred:
			clock.Reset(period)
			continue
		case <-idle:
			return
		}
		loads, after := c.loadsSince(before)
		before = after
		var turns uint64
		for _, l := range loads {
			turns += l.turns
		}
		v.keep(turns >= rush)
		if turns == 0 {
			c.quiet.Store(true) // the next request goes on here
			continue
		}
		clock.Reset(period)
		if was := p.pinned; p.next(now(), loads) != was {
			c.pinAll(p.pinned)
		}
	}
}

// loadsSince returns what each reader that has a CPU of its own has been
// through since before, and the new reading.
func (c *crew) loadsSince(before map[*reader]load) ([]load, map[*reader]load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := map[*reader]load{}
	var loads []load
	for _, r := range c.readers {
		if r.tid == 0 {
			continue
		}
		l, err := readLoad(r.tid)
		if err != nil {
			continue // no such file in this kernel: readers stay unpinned
		}
		after[r] = l
		if b, ok := before[r]; ok {
			loads = append(loads, load{wait: l.wait - b.wait, turns: l.turns - b.turns})
		}
	}
	return loads, after
}

// readLoad reads /proc/PID/task/TID/schedstat: nanoseconds on the CPU,
// nanoseconds waiting for it, times it was given.
func readLoad(tid int) (load, error) {
	fd, err := unix.Open("/proc/self/task/"+strconv.Itoa(tid)+"/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return load{}, err
	}
	defer unix.Close(fd)
	var b [64]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return load{}, err
	}
	var ran, waited int64
	var l load
	if _, err := fmt.Sscan(string(b[:n]), &ran, &waited, &l.turns); err != nil {
		return load{}, err
	}
	l.wait = time.Duration(waited)
	return l, nil
}

// pinAll binds each reader that has a CPU to it, or lets it run on any that
// the process may use. A CPU that has gone, or a kernel that refuses, costs
// speed only.
func (c *crew) pinAll(pin bool) {
	var all unix.CPUSet
	for _, cpu := range allowedCPUs() {
		if cpu >= 0 {
			all.Set(cpu)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.readers {
		if r.tid == 0 {
			continue
		}
		set := all
		if pin {
			set.Zero()
			set.Set(r.cpu)
			c.pins.Add(1)
		}
		// The thread is there: a reader leaves the crew before it ends.
		if err := unix.SchedSetaffinity(r.tid, &set); err != nil {
			c.log.Debug("fuse: reader not placed", "cpu", r.cpu, "err", err)
		}
	}
}
