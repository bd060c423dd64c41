package disklayer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// pending is the table of copies whose mark says that they are pending, or did
// so until lately. A copy is settled when its data is durable and so is the
// change of its mark.
type pending struct {
	u     *Upper
	count atomic.Int64 // of copies; 0 makes every call return at once

	wake chan struct{} // there are copies
	quit chan struct{}
	done chan struct{} // closed when the background has ended

	// mu is the pending-copy table's lock in the lock order of package overlay.
	mu     sync.Mutex
	copies map[uint64]*pendingCopy // by inode number; protected by mu
}

// A pendingCopy is settled by one goroutine at a time.
type pendingCopy struct {
	ino    uint64
	origin origin

	name overlay.Name // protected by pending.mu

	// mu is held while the copy is settled. It comes before pending.mu.
	mu       sync.Mutex
	unmarked bool // the mark is changed, perhaps not durably; protected by mu
	missed   int  // times that it was not at its name; protected by mu
	settled  bool // protected by mu
}

func newPending(u *Upper) *pending {
	return &pending{
		u:      u,
		wake:   make(chan struct{}, 1),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
		copies: make(map[uint64]*pendingCopy),
	}
}

// add tells of a copy that gets the name name.
func (p *pending) add(ino uint64, name overlay.Name, o origin) {
	p.mu.Lock()
	p.copies[ino] = &pendingCopy{ino: ino, name: name, origin: o}
	p.count.Store(int64(len(p.copies)))
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// forget drops the copy ino, which is gone from the disk or settled.
func (p *pending) forget(ino uint64) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.copies, ino)
	p.count.Store(int64(len(p.copies)))
}

// find returns the copy ino, nil if it is not pending.
func (p *pending) find(ino uint64) *pendingCopy {
	if p.count.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.copies[ino]
}

// move tells that the directory from is now at to; with exchange, what was at to
// is at from. Files are settled before they move.
func (p *pending) move(from, to overlay.Name, exchange bool) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.copies {
		switch {
		case c.name.Within(from):
			c.name = to + c.name[len(from):]
		case exchange && c.name.Within(to):
			c.name = from + c.name[len(to):]
		}
	}
}

// settle settles the copy ino, open as fd, if it is pending. It must return
// before anything is done that makes the copy's size or mark untrue.
func (p *pending) settle(ino uint64, fd int) error {
	c := p.find(ino)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled {
		return nil
	}
	if !c.unmarked {
		if err := p.u.step("fsync copy"); err != nil {
			return err
		}
		if err := again(func() error { return unix.Fsync(fd) }); err != nil {
			return err
		}
		if err := p.settleMark(c, fd); err != nil {
			return err
		}
		c.unmarked = true
	}
	if err := p.u.step("fsync copy without mark"); err != nil {
		return err
	}
	if err := again(func() error { return unix.Fsync(fd) }); err != nil {
		return err
	}
	c.settled = true
	p.forget(ino)
	return nil
}

// settle is pending.settle for the file base in d, which need not be open.
func (u *Upper) settle(d *dir, base string, ino uint64) error {
	if u.pending.find(ino) == nil {
		return nil
	}
	fd, err := u.openFile(d, base, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.pending.settle(ino, fd)
}

// snapshot returns the copies there are.
func (p *pending) snapshot() []*pendingCopy {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pendingCopy, 0, len(p.copies))
	for _, c := range p.copies {
		all = append(all, c)
	}
	return all
}

// round makes the file system durable once and brings each copy a step further:
// those whose mark was removed before are settled, the others get their mark changed.
func (p *pending) round() error {
	copies := p.snapshot()
	if err := p.u.step("syncfs"); err != nil {
		return err
	}
	unmarked := make(map[*pendingCopy]bool) // before the sync
	for _, c := range copies {
		c.mu.Lock()
		unmarked[c] = c.unmarked
		c.mu.Unlock()
	}
	if err := again(func() error { return unix.Syncfs(p.u.root) }); err != nil {
		return err
	}
	for _, c := range copies {
		if err := p.advance(c, unmarked[c]); err != nil {
			return err
		}
	}
	return nil
}

// advance settles c if its mark is durably gone, and removes the mark else.
func (p *pending) advance(c *pendingCopy, unmarked bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled:
		return nil
	case unmarked:
		c.settled = true
		p.forget(c.ino)
		return nil
	case c.unmarked:
		return nil
	}
	err := p.unmark(c)
	if is(err, unix.ENOENT) {
		p.miss(c)
		return nil
	}
	c.unmarked = err == nil
	return err
}

// maxMissed is how often a copy may be missed before it is given up.
const maxMissed = 8

// miss notes that c is not at its name: a directory above is just being moved,
// or c removed. If that lasts, somebody else changes the layer; then Check
// reports the mark if c is still somewhere. Preconditions: c.mu is held.
func (p *pending) miss(c *pendingCopy) {
	if c.missed++; c.missed < maxMissed {
		return
	}
	p.u.opt.Log.Warn("disklayer: a copy is not where it was put", "inode", c.ino)
	c.settled = true
	p.forget(c.ino)
}

// unmark removes the mark of c. ENOENT if c is not at its name.
func (p *pending) unmark(c *pendingCopy) error {
	if c.origin.indexed {
		return p.unmarkAt(c, p.u.links.fd, indexEntry(c.origin.ino))
	}
	p.mu.Lock()
	name := c.name
	p.mu.Unlock()
	d, base, err := p.u.parent(name)
	if is(err, unix.ENOTDIR) {
		err = unix.ENOENT
	}
	if err != nil {
		return err
	}
	defer p.u.cache.put(d)
	return p.unmarkAt(c, d.fd, base)
}

// unmarkAt is unmark of c, which should be base in the directory at.
func (p *pending) unmarkAt(c *pendingCopy, at int, base string) error {
	fd, err := openat(at, base, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		return err
	}
	if st.Ino != c.ino {
		return unix.ENOENT
	}
	return p.settleMark(c, fd)
}

// settleMark changes the mark of c, open as fd, to that of a copy that is not
// pending.
func (p *pending) settleMark(c *pendingCopy, fd int) error {
	if err := p.u.step("settle mark"); err != nil {
		return err
	}
	if c.origin.indexed { // the count of links is in the same mark
		p.u.links.mu.Lock()
		defer p.u.links.mu.Unlock()
	}
	return p.u.marks.settleMark(procPath(fd, "."))
}

// within reports whether a copy is pending below the directory name.
func (p *pending) within(name overlay.Name) bool {
	if p.count.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.copies {
		if c.name.Within(name) {
			return true
		}
	}
	return false
}

// start begins to settle copies in the background.
func (p *pending) start() { go p.run() }

func (p *pending) run() {
	defer close(p.done)
	for {
		select {
		case <-p.quit:
			return
		case <-p.wake:
		}
		for p.count.Load() > 0 {
			if !p.pause() {
				return
			}
			if err := p.round(); err != nil {
				p.u.opt.Log.Error("disklayer: settle copies", "err", err)
			}
		}
	}
}

// pause waits as long as a copy may wait and reports whether to go on.
func (p *pending) pause() bool {
	if p.u.opt.SyncDelay < 0 {
		<-p.quit
		return false
	}
	t := time.NewTimer(p.u.opt.SyncDelay)
	defer t.Stop()
	select {
	case <-p.quit:
		return false
	case <-t.C:
		return true
	}
}

// stop ends the background work.
func (p *pending) stop() {
	close(p.quit)
	<-p.done
}

// DrainMarks settles every copy and makes the whole layer durable, so that no
// copy is pending: before the layer is frozen and before a checkpoint returns.
func (u *Upper) DrainMarks(ctx context.Context) error {
	if err := u.drain(ctx); err != nil {
		return fail("sync", overlay.Root, err)
	}
	return nil
}

func (u *Upper) drain(ctx context.Context) error {
	for {
		if err := u.pending.round(); err != nil {
			return err
		}
		if u.pending.count.Load() == 0 {
			return u.marks.extra.sync()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
