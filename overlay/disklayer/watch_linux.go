package disklayer

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A hostWatch is what is watched of one Host: the directories that callers
// asked for and all directories above them, so that a directory that moves or
// is replaced is noticed.
type hostWatch struct {
	h *Host

	// points are the watched directories. With a directory its parent is in,
	// too. Protected by notifier.mu.
	points map[overlay.Name]*watchPoint
}

// A watchPoint is a directory under watch. All fields are protected by
// notifier.mu.
type watchPoint struct {
	watch *hostWatch
	name  overlay.Name
	wd    int32                        // the kernel's number; none while there is no such directory
	users int                          // points in below, and registrations
	below map[overlay.Name]*watchPoint // the points of directories in this one
	regs  map[*registration]bool
}

const none int32 = -1

// A registration is one call of Watch.
type registration struct {
	fn      func(child string)
	stopped bool // protected by notifier.mu
}

// Watch implements overlay.Watcher.
func (h *Host) Watch(_ context.Context, name overlay.Name, fn func(child string)) (stop func(), err error) {
	n, err := sharedNotifier()
	if err != nil {
		return nil, fail("watch", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return nil, fail("watch", name, unix.EIO)
	}
	p, err := h.watch.addLocked(n, name)
	if err != nil {
		return nil, fail("watch", name, err)
	}
	reg := &registration{fn: fn}
	p.regs[reg] = true
	var once sync.Once
	return func() { once.Do(func() { n.stop(p, reg) }) }, nil
}

// stop ends the registration reg at p.
func (n *notifier) stop(p *watchPoint, reg *registration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reg.stopped = true
	if p.regs[reg] {
		delete(p.regs, reg)
		p.watch.releaseLocked(n, p)
	}
}

// addLocked adds a user to the watch of name and of all above it, which begin
// with the root: a directory that moves meanwhile is noticed by its parent's.
// Preconditions: n.mu is held.
func (w *hostWatch) addLocked(n *notifier, name overlay.Name) (*watchPoint, error) {
	if p := w.points[name]; p != nil {
		if p.wd == none {
			if err := w.attachLocked(n, p); err != nil {
				return nil, err
			}
		}
		p.users++
		return p, nil
	}
	var parent *watchPoint
	if name != overlay.Root {
		var err error
		if parent, err = w.addLocked(n, name.Dir()); err != nil {
			return nil, err
		}
	}
	p := &watchPoint{watch: w, name: name, wd: none, users: 1}
	p.regs, p.below = make(map[*registration]bool), make(map[overlay.Name]*watchPoint)
	if err := w.attachLocked(n, p); err != nil {
		if parent != nil {
			w.releaseLocked(n, parent)
		}
		return nil, err
	}
	w.points[name] = p
	if parent != nil {
		parent.below[name] = p
	}
	return p, nil
}

// releaseLocked takes a user from p, and p away with its last. Preconditions:
// n.mu is held.
func (w *hostWatch) releaseLocked(n *notifier, p *watchPoint) {
	p.users--
	if p.users > 0 {
		return
	}
	n.detachLocked(p)
	delete(w.points, p.name)
	w.h.cache.forget(p.name)
	if p.name == overlay.Root {
		return
	}
	if parent := w.points[p.name.Dir()]; parent != nil {
		delete(parent.below, p.name)
		w.releaseLocked(n, parent)
	}
}

// attachLocked has the kernel watch the directory that p's name leads to now.
// Preconditions: n.mu is held.
func (w *hostWatch) attachLocked(n *notifier, p *watchPoint) error {
	fd, err := w.h.open(w.h.root, string(p.name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return n.attachLocked(p, fd)
}

// covers reports whether a cached descriptor of the directory name would be
// dropped when the directory moves.
func (w *hostWatch) covers(name overlay.Name) bool {
	n, err := sharedNotifier()
	if err != nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := w.points[name]
	return p != nil && p.wd != none && !n.dead
}

// renewLocked watches the directories that the points at name and below lead to
// now, and returns the registrations there: any child may have changed.
// Preconditions: n.mu is held.
func (w *hostWatch) renewLocked(n *notifier, name overlay.Name) (regs []*registration) {
	w.h.cache.forgetWithin(name)
	if p := w.points[name]; p != nil {
		regs = w.renewPointLocked(n, p, nil)
	}
	return regs
}

// renewPointLocked is renewLocked for p and what is below, which comes later: a
// move meanwhile is noticed above. It appends to regs.
func (w *hostWatch) renewPointLocked(n *notifier, p *watchPoint, regs []*registration) []*registration {
	n.detachLocked(p)
	err := w.attachLocked(n, p)
	if err != nil && !is(err, unix.ENOENT, unix.ENOTDIR) {
		w.h.opt.Log.Error("disklayer: watch", "name", p.name, "err", err)
	}
	for reg := range p.regs {
		regs = append(regs, reg)
	}
	for _, below := range p.below {
		regs = w.renewPointLocked(n, below, regs)
	}
	return regs
}

// close ends all watches of the host.
func (w *hostWatch) close() {
	n, err := sharedNotifier()
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, p := range w.points {
		n.detachLocked(p)
		for reg := range p.regs {
			reg.stopped = true
		}
		clear(p.regs)
		delete(w.points, name)
	}
}
