package transport

import (
	"log/slog"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A crew is the readers of one connection.
//
// A reader per CPU handles requests itself, pinned to it as long as place finds
// that good. While one of them waits in the kernel no time is lost. When every
// reader has been in the same handler for a tick, the watcher adds a spare; it
// leaves when the others keep up again.
type crew struct {
	proto  requestHandler // immutable
	dev    *device        // immutable
	log    *slog.Logger   // immutable
	pool   *sync.Pool     // immutable; of *buffers
	spares int            // immutable; the most there may be
	clone  bool           // immutable

	// busy counts readers in a handler, size all readers. size changes under
	// mu only; both are read without it.
	busy, size atomic.Int32

	// alarmed is set while the watcher looks at the readers, so that they
	// need not wake it again.
	alarmed atomic.Bool
	alarm   chan struct{} // capacity 1

	// quiet is set while place sleeps since no requests come; the next one
	// wakes it.
	quiet   atomic.Bool
	stirred chan struct{} // capacity 1

	jammedAt atomic.Int64  // now() when all readers were last seen stuck
	started  atomic.Uint64 // spares ever started
	pins     atomic.Uint64 // readers ever pinned

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
		clone:   o.Clone,
		alarm:   make(chan struct{}, 1),
		stirred: make(chan struct{}, 1),
		lost:    make(chan struct{}),
		tallies: []*tally{new(tally)},
	}
}

// serve runs a reader for each of cpus and returns when all have ended.
func (c *crew) serve(cpus []int) {
	for _, cpu := range cpus {
		c.mu.Lock()
		t := new(tally)
		c.tallies = append(c.tallies, t)
		c.startLocked(&reader{tally: t}, cpu)
		c.mu.Unlock()
	}
	idle := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { c.watch(idle) })
	others.Go(func() { c.cancelInflight(idle) })
	others.Go(func() { c.place(idle) })
	c.ended.Wait()
	close(idle)
	others.Wait()
}

// startLocked adds r to the crew and runs it, with cpu as the one that it may
// be pinned to unless that is negative.
//
// Preconditions: c.mu is held; serve does not wait yet, or some reader has not
// left the crew.
func (c *crew) startLocked(r *reader, cpu int) {
	r.crew, r.proto, r.fd = c, c.proto, c.dev.fd
	r.buf = c.pool.Get().(*buffers)
	c.readers = append(c.readers, r)
	c.size.Add(1)
	c.ended.Go(func() {
		if cpu >= 0 {
			c.settle(r, cpu)
		}
		errno := r.run()
		if errno != 0 {
			c.lostOne.Do(func() { close(c.lost) })
		}
		if errno != 0 && errno != syscall.ENODEV {
			c.log.Error("fuse: reading requests failed", "err", errno)
		}
		c.leaveCrew(r, errno)
	})
}

// settle gives the calling goroutine a thread that place may pin to cpu, and a
// device of its own if that is wanted. The thread ends with the goroutine,
// since nobody unlocks it.
func (c *crew) settle(r *reader, cpu int) {
	goruntime.LockOSThread()
	c.mu.Lock()
	r.cpu, r.tid = cpu, unix.Gettid()
	c.mu.Unlock()
	if !c.clone {
		return
	}
	fd, err := c.dev.clone()
	if err != nil {
		c.log.Debug("fuse: device not cloned", "err", err)
		return
	}
	r.fd = fd
}

// leaveCrew removes r after its last request. dismiss has already counted a
// spare out that it sent away.
func (c *crew) leaveCrew(r *reader, errno syscall.Errno) {
	if r.fd != c.dev.fd {
		unix.Close(r.fd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.readers {
		if c.readers[i] == r {
			c.readers = append(c.readers[:i], c.readers[i+1:]...)
			break
		}
	}
	if errno != 0 {
		c.size.Add(-1)
	}
	if r.spare {
		c.running--
	}
	c.pool.Put(r.buf)
}

// enter and leave bracket a handler. The reader that leaves nobody waiting in
// the kernel wakes the watcher, the first after a quiet time wakes place.
func (c *crew) enter() {
	if c.busy.Add(1) >= c.size.Load() && !c.alarmed.Load() {
		wake(c.alarm)
	}
	if c.quiet.Load() && c.quiet.CompareAndSwap(true, false) {
		wake(c.stirred)
	}
}

// wake has whoever receives from c go on, now or when he next does.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c *crew) leave() { c.busy.Add(-1) }

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
		readers := append([]*reader(nil), c.readers...)
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
		Pinned:        c.pins.Load(),
	}
}
