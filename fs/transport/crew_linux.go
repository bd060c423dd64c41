package transport

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A crew is the readers of one connection.
//
// Few readers are enough while they keep up, one for most: it reads, handles
// and answers without a switch of threads where requests wait already. Spares
// join when all readers are stuck in a handler or have no moment of rest, and
// leave when the others can do without them (oversee).
type crew struct {
	proto  requestHandler // immutable
	dev    *device        // immutable
	log    *slog.Logger   // immutable
	pool   *sync.Pool     // immutable; of *buffers
	spares int            // immutable; the most there may be

	// busy counts readers in a handler, size all readers. size changes under
	// mu only; both are read without it.
	busy, size atomic.Int32

	// surplus is set while a spare is to leave after its next request.
	surplus atomic.Bool

	// quiet is set while the overseer sleeps since no requests come; the next
	// one wakes it.
	quiet   atomic.Bool
	stirred chan struct{} // capacity 1

	needed  atomic.Int64  // now() when a spare was last found needed
	started atomic.Uint64 // spares ever started

	ended   sync.WaitGroup // readers
	lost    chan struct{}  // closed when a reader sees that the connection ended
	lostOne sync.Once

	mu      sync.Mutex
	readers []*reader // protected by mu
	tallies []*tally  // protected by mu; the first is shared by all spares
	running int       // spares; protected by mu
}

func newCrew(proto requestHandler, dev *device, maxWrite int, o Options) *crew {
	return &crew{
		proto:   proto,
		dev:     dev,
		log:     o.Log,
		pool:    &sync.Pool{New: func() any { return newBuffers(maxWrite) }},
		spares:  o.Spares,
		stirred: make(chan struct{}, 1),
		lost:    make(chan struct{}),
		tallies: []*tally{new(tally)},
	}
}

// serve runs readers, that many at least, and returns when all have ended.
func (c *crew) serve(readers int) {
	for range readers {
		c.mu.Lock()
		t := new(tally)
		c.tallies = append(c.tallies, t)
		c.startLocked(&reader{tally: t})
		c.mu.Unlock()
	}
	idle := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { c.oversee(idle) })
	others.Go(func() { c.cancelInflight(idle) })
	c.ended.Wait()
	close(idle)
	others.Wait()
}

// startLocked adds r to the crew and runs it.
//
// Preconditions: c.mu is held; serve does not wait yet, or some reader has not
// left the crew.
func (c *crew) startLocked(r *reader) {
	r.crew, r.proto, r.fd = c, c.proto, c.dev.fd
	r.buf = c.pool.Get().(*buffers)
	r.free.Store(int64(now()))
	c.readers = append(c.readers, r)
	c.size.Add(1)
	c.ended.Go(func() {
		errno := r.run()
		if errno != 0 {
			c.lostOne.Do(func() { close(c.lost) })
		}
		if errno != 0 && errno != syscall.ENODEV {
			c.log.Error("fuse: reading requests failed", "err", errno)
		}
		c.leaveCrew(r)
	})
}

// leaveCrew removes r after its last request.
func (c *crew) leaveCrew(r *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers = slices.DeleteFunc(c.readers, func(other *reader) bool { return other == r })
	c.size.Add(-1)
	if r.spare {
		c.running--
	}
	c.pool.Put(r.buf)
}

// enter and leave bracket a handler. The first request after a quiet time wakes
// the overseer, and one that is known to take long brings a spare if nobody
// else would be waiting for requests.
func (c *crew) enter(op uint32) {
	busy := c.busy.Add(1)
	if c.quiet.Load() && c.quiet.CompareAndSwap(true, false) {
		wake(c.stirred)
	}
	if lengthy(op) && busy >= c.size.Load() {
		c.addSpare()
	}
}

func (c *crew) leave() { c.busy.Add(-1) }

// wake has whoever receives from c go on, now or when he next does.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// cancelInflight waits for the connection to end and then interrupts every
// request that is still being handled, until idle is closed. Nobody waits for
// their answers, and a handler that waits for something has to be told.
//
// fuse.ProtocolServer has no call for it, but it takes an INTERRUPT from
// anywhere. One that comes before the request is entered there is refused, so
// it is repeated.
func (c *crew) cancelInflight(idle <-chan struct{}) {
	select {
	case <-c.lost:
	case <-idle:
		return
	}
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		c.mu.Lock()
		readers := slices.Clone(c.readers)
		c.mu.Unlock()
		for _, r := range readers {
			unique := r.inflight.Load()
			if unique != 0 && unique != r.cancelled && c.interrupt(unique) {
				r.cancelled = unique
			}
		}
		select {
		case <-clock.C:
		case <-idle:
			return
		}
	}
}

// interrupt cancels the request and reports whether it was found.
func (c *crew) interrupt(unique uint64) bool {
	in := fuse.InterruptIn{Unique: unique}
	in.Opcode = opInterrupt
	in.Length = uint32(unsafe.Sizeof(in))
	var out [answerRoom]byte
	n, status := c.proto.HandleRequest([][]byte{bytesOf(&in)}, [][]byte{out[:]})
	return n == 0 && status.Ok()
}

func (c *crew) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Ops:           sum(c.tallies),
		Readers:       len(c.readers),
		Spares:        c.running,
		SparesStarted: c.started.Load(),
	}
}
