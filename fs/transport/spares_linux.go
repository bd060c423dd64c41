package transport

import "time"

const (
	// tick is how long all readers have to be stuck before a spare comes: long
	// against a round trip, short against what people notice.
	tick = time.Millisecond
	// calm is for how long nobody has to be stuck before spares leave and the
	// watcher sleeps: long enough that a store that is slow now and then does
	// not cost its neighbours a tick each time.
	calm = 50 * time.Millisecond
)

// dismiss reports whether the calling spare, which has just answered, is to
// end: nobody has been stuck for a while and others wait for requests.
func (c *crew) dismiss() bool {
	if now()-time.Duration(c.jammedAt.Load()) < calm {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy.Load() >= c.size.Load()-1 {
		return false
	}
	c.size.Add(-1)
	return true
}

// watch adds spares while all readers are stuck, until idle is closed. It
// sleeps as long as some reader waits in the kernel.
func (c *crew) watch(idle <-chan struct{}) {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		clock.Stop()
		c.alarmed.Store(false)
		if c.busy.Load() < c.size.Load() {
			select {
			case <-c.alarm:
			case <-idle:
				return
			}
		}
		c.alarmed.Store(true)
		clock.Reset(tick)
		var before map[*reader]uint64
		for quiet := time.Duration(0); quiet < calm; quiet += tick {
			select {
			case <-clock.C:
			case <-idle:
				return
			}
			after := c.requests()
			if stuck(before, after) {
				c.jammedAt.Store(int64(now()))
				c.addSpare()
				quiet = 0
			}
			before = after
		}
	}
}

// requests returns what each reader is handling, 0 for nothing.
func (c *crew) requests() map[*reader]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[*reader]uint64, len(c.readers))
	for _, r := range c.readers {
		all[r] = r.inflight.Load()
	}
	return all
}

// stuck reports whether every reader handles the request that it handled
// before.
func stuck(before, after map[*reader]uint64) bool {
	for r, unique := range after {
		if unique == 0 || before[r] != unique {
			return false
		}
	}
	return len(after) > 0
}

// addSpare starts another reader unless there are as many as may be, or the
// last reader has left since somebody looked.
func (c *crew) addSpare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= c.spares || len(c.readers) == 0 {
		return
	}
	c.running++
	c.started.Add(1)
	c.startLocked(&reader{tally: c.tallies[0], spare: true}, -1)
}
