package disklayer

import (
	"bytes"
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A notifier is the process's one inotify instance, shared by all hosts. One
// goroutine moves events from the kernel to memory and does nothing else, so
// that the kernel's queue does not fill; another tells who watches.
type notifier struct {
	fd   int      // immutable
	file *os.File // of fd; immutable

	// mu guards the points and registrations of all hosts. It comes before
	// the descriptor cache's lock.
	mu sync.Mutex
	// byWD holds the points for each of the kernel's numbers: several if two
	// hosts show one directory. Protected by mu.
	byWD map[int32]map[*watchPoint]bool
	// dead: the kernel tells no more events. Protected by mu.
	dead bool

	// queueMu guards what is between the two goroutines.
	queueMu sync.Mutex
	queue   []event
	queued  map[event]bool // what is in queue
	lost    bool           // events were lost
	wake    chan struct{}
}

// An event is what the kernel tells, without what does not matter.
type event struct {
	wd    int32
	child string // "" for the directory itself
	// moved: a directory came, went or was replaced at child, or this
	// directory did.
	moved bool
}

const (
	watchMask = unix.IN_ATTRIB | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE |
		unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF |
		unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	// maxQueue bounds the events in memory; more count as an overflow.
	maxQueue = 1 << 20
)

var overflows atomic.Uint64

// Overflows returns how often events of watched directories were lost since the
// process began; each time every watcher was told that anything may have
// changed.
func Overflows() uint64 { return overflows.Load() }

var sharedNotifier = sync.OnceValues(newNotifier)

func newNotifier() (*notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	n := &notifier{
		fd:     fd,
		file:   os.NewFile(uintptr(fd), "inotify"), // lives as long as the process
		byWD:   make(map[int32]map[*watchPoint]bool),
		queued: make(map[event]bool),
		wake:   make(chan struct{}, 1),
	}
	go n.read()
	go n.dispatch()
	return n, nil
}

// attachLocked has the kernel watch the directory open as fd for p.
// Preconditions: n.mu is held; p is not attached.
func (n *notifier) attachLocked(p *watchPoint, fd int) error {
	wd, err := unix.InotifyAddWatch(n.fd, procPath(fd, "."), watchMask)
	if err != nil {
		return err
	}
	p.wd = int32(wd)
	if n.byWD[p.wd] == nil {
		n.byWD[p.wd] = make(map[*watchPoint]bool)
	}
	n.byWD[p.wd][p] = true
	return nil
}

// detachLocked ends what attachLocked began. Preconditions: n.mu is held.
func (n *notifier) detachLocked(p *watchPoint) {
	if p.wd == none {
		return
	}
	points := n.byWD[p.wd]
	delete(points, p)
	if len(points) == 0 {
		delete(n.byWD, p.wd)
		unix.InotifyRmWatch(n.fd, uint32(p.wd)) // EINVAL if the directory is gone
	}
	p.wd = none
}

// read moves events from the kernel to the queue.
func (n *notifier) read() {
	buf := make([]byte, 256<<10)
	for {
		m, err := n.file.Read(buf)
		if err != nil {
			n.mu.Lock()
			n.dead = true
			n.mu.Unlock()
			n.push(nil, true) // nothing is known any more of what is watched
			return
		}
		events, lost := parseEvents(buf[:m])
		n.push(events, lost)
	}
}

// parseEvents returns the events in buf, as read from an inotify descriptor,
// and whether the kernel lost some.
func parseEvents(buf []byte) (events []event, lost bool) {
	const header = unix.SizeofInotifyEvent
	for len(buf) >= header {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := int(binary.NativeEndian.Uint32(buf[12:]))
		if size > len(buf)-header {
			return events, true
		}
		name, _, _ := bytes.Cut(buf[header:header+size], []byte{0})
		buf = buf[header+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			lost = true
			continue
		}
		const self = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
		const names = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
		moved := mask&self != 0 || (mask&names != 0 && mask&unix.IN_ISDIR != 0)
		events = append(events, event{wd: wd, child: string(name), moved: moved})
	}
	return events, lost
}

// push adds events to the queue. An event that is already in it is dropped:
// it has not been told yet.
func (n *notifier) push(events []event, lost bool) {
	n.queueMu.Lock()
	n.lost = n.lost || lost
	for _, e := range events {
		if !n.queued[e] {
			n.queued[e] = true
			n.queue = append(n.queue, e)
		}
	}
	if len(n.queue) > maxQueue {
		n.lost = true
	}
	if n.lost {
		n.queue = nil
		clear(n.queued)
	}
	n.queueMu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// dispatch tells who watches.
func (n *notifier) dispatch() {
	for range n.wake {
		n.queueMu.Lock()
		events, lost := n.queue, n.lost
		n.queue, n.lost = nil, false
		clear(n.queued)
		n.queueMu.Unlock()
		if lost {
			overflows.Add(1)
			n.tellAll()
		}
		for _, e := range events {
			n.tell(e)
		}
	}
}

// A call is one that is due to a registration.
type call struct {
	reg   *registration
	child string
}

// tell makes the calls that e asks for.
func (n *notifier) tell(e event) {
	n.mu.Lock()
	var calls []call
	points := make([]*watchPoint, 0, 1)
	for p := range n.byWD[e.wd] {
		points = append(points, p)
	}
	for _, p := range points {
		for reg := range p.regs {
			calls = append(calls, call{reg, e.child})
		}
		if !e.moved {
			continue
		}
		at := p.name
		if e.child != "" {
			at = at.Join(e.child)
		}
		for _, reg := range p.watch.renewLocked(n, at) {
			calls = append(calls, call{reg, ""})
		}
	}
	n.mu.Unlock()
	n.makeCalls(calls)
}

// tellAll looks anew at every directory that is watched and tells everybody
// that anything may have changed.
func (n *notifier) tellAll() {
	n.mu.Lock()
	hosts := make(map[*hostWatch]bool)
	for _, points := range n.byWD {
		for p := range points {
			hosts[p.watch] = true
		}
	}
	var calls []call
	for w := range hosts {
		for _, reg := range w.renewLocked(n, overlay.Root) {
			calls = append(calls, call{reg, ""})
		}
	}
	n.mu.Unlock()
	n.makeCalls(calls)
}

// makeCalls calls who has not stopped meanwhile, without a lock held.
func (n *notifier) makeCalls(calls []call) {
	for _, c := range calls {
		n.mu.Lock()
		stopped := c.reg.stopped
		n.mu.Unlock()
		if !stopped {
			c.reg.fn(c.child)
		}
	}
}
