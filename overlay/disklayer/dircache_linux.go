package disklayer

import (
	"container/list"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A dir is an open directory of a layer. While it is held its descriptor is
// good. A directory has one dir at a time in an Upper or Frozen layer, so what
// is remembered here is remembered for all.
type dir struct {
	fd   int
	name overlay.Name // protected by dirCache.mu

	refs int           // holders; protected by dirCache.mu
	elem *list.Element // in dirCache.idle, nil while held or not cached; protected by dirCache.mu
	kept bool          // in dirCache.byName; protected by dirCache.mu

	// purity is one of the purity constants. It goes from unknown to pure or
	// impure and from pure to impure.
	purity atomic.Int32

	// origin is the directory's own; nil unless known. Only files get another.
	origin atomic.Pointer[origin]

	// birth is what files made in the directory take from it; nil unless known.
	birth atomic.Pointer[birth]
}

const (
	purityUnknown int32 = iota
	pure                // holds no file with an origin
	impure
)

// ownOrigin returns the origin of d itself, but for one in the mark file. It goes
// through the descriptor, since d's name may mean another directory by now.
func (d *dir) ownOrigin(m *markSet) (o origin, err error) {
	if known := d.origin.Load(); known != nil {
		return *known, nil
	}
	var value [64]byte
	n, err := unix.Getxattr(procPath(d.fd, "."), m.attrs[markOrigin], value[:])
	switch {
	case err == nil:
		o = parseOrigin(value[:n])
	case !is(err, unix.ENODATA):
		if noMark(err) { // for now: permissions may change
			err = nil
		}
		return o, err
	}
	d.origin.Store(&o)
	return o, nil
}

// A dirCache keeps directories open, by name.
type dirCache struct {
	max int // immutable

	// mu is the descriptor cache's lock in the lock order of package overlay.
	mu     sync.Mutex
	byName map[overlay.Name]*dir // protected by mu
	idle   *list.List            // of *dir in byName that nobody holds, least recently used first; protected by mu
	gen    uint64                // grows whenever names move; protected by mu
}

func newDirCache(max int) *dirCache {
	return &dirCache{max: max, byName: make(map[overlay.Name]*dir), idle: list.New()}
}

// get returns the cached directory name, held, or nil; gen is for add.
func (c *dirCache) get(name overlay.Name) (d *dir, gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d = c.byName[name]
	if d != nil {
		c.holdLocked(d)
	}
	return d, c.gen
}

// holdLocked adds a holder to d. Preconditions: c.mu is held; d is in byName.
func (c *dirCache) holdLocked(d *dir) {
	d.refs++
	if d.elem != nil {
		c.idle.Remove(d.elem)
		d.elem = nil
	}
}

// add caches fd, which was opened as name after get returned gen, and returns
// its dir, held. It returns nil, and fd is closed, if names moved since: open
// the directory anew.
func (c *dirCache) add(name overlay.Name, fd int, gen uint64) *dir {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen != gen {
		unix.Close(fd)
		return nil
	}
	if d := c.byName[name]; d != nil {
		unix.Close(fd)
		c.holdLocked(d)
		return d
	}
	d := &dir{fd: fd, name: name, refs: 1, kept: true}
	c.byName[name] = d
	c.shrinkLocked(c.max)
	return d
}

// put ends a hold on d.
func (c *dirCache) put(d *dir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.refs--
	switch {
	case d.refs > 0:
	case d.kept:
		d.elem = c.idle.PushBack(d)
		c.shrinkLocked(c.max)
	default:
		unix.Close(d.fd)
	}
}

// shrinkLocked closes directories that nobody holds until at most limit are
// open, the least recently used first. Preconditions: c.mu is held.
func (c *dirCache) shrinkLocked(limit int) {
	for len(c.byName) > limit && c.idle.Len() > 0 {
		c.forgetLocked(c.idle.Front().Value.(*dir))
	}
}

// forgetLocked takes d out of the cache. Preconditions: c.mu is held.
func (c *dirCache) forgetLocked(d *dir) {
	delete(c.byName, d.name)
	d.kept = false
	if d.elem == nil {
		return
	}
	c.idle.Remove(d.elem)
	d.elem = nil
	unix.Close(d.fd)
}

// shrink closes what nobody holds and reports whether it closed anything.
func (c *dirCache) shrink() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.idle.Len()
	c.shrinkLocked(0)
	return before > 0
}

// forget drops the directory name alone, which has been removed.
func (c *dirCache) forget(name overlay.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	if d := c.byName[name]; d != nil {
		c.forgetLocked(d)
	}
}

// forgetWithin drops the directory name and all below it.
func (c *dirCache) forgetWithin(name overlay.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	for n, d := range c.byName {
		if n.Within(name) {
			c.forgetLocked(d)
		}
	}
}

// move tells that the directory from, and all below it, is now at to; with
// exchange, what was at to is at from.
func (c *dirCache) move(from, to overlay.Name, exchange bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	moved := make(map[overlay.Name]*dir)
	for n, d := range c.byName {
		switch {
		case n.Within(from):
			moved[to+n[len(from):]] = d
		case !n.Within(to):
			continue
		case exchange:
			moved[from+n[len(to):]] = d
		default:
			c.forgetLocked(d)
			continue
		}
		delete(c.byName, n)
	}
	for n, d := range moved {
		d.name = n
		c.byName[n] = d
	}
}

// close drops everything. Directories that are held close with their holder.
func (c *dirCache) close() { c.forgetWithin(overlay.Root) }
