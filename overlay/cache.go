package overlay

import (
	"container/list"
	"sync"
)

// maxCached is how many merged directories are remembered. An entry takes
// some 300 bytes.
const maxCached = 1 << 16

// A cache remembers merged directories, those used last.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]*list.Element // guarded by mu; of *cached
	used    *list.List                 // guarded by mu; last used first
}

// A cacheKey is the directory dir of the tree of the layers from base on.
type cacheKey struct {
	base int
	dir  Name
}

// A cached is an entry of a cache.
type cached struct {
	key cacheKey
	m   *merged
}

// newCache returns an empty cache.
func newCache() *cache {
	return &cache{entries: make(map[cacheKey]*list.Element), used: list.New()}
}

// get returns what is known of a directory, nil if nothing.
func (c *cache) get(base int, dir Name) *merged {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[cacheKey{base, dir}]
	if e == nil {
		return nil
	}
	m := e.Value.(*cached).m
	if !m.valid() {
		c.dropLocked(e)
		return nil
	}
	c.used.MoveToFront(e)
	return m
}

// put remembers m, if current still says that nothing has changed since what
// it was made from was read. Whoever changes something makes current false
// before, and calls kill after the change. Its parent has to be remembered, too:
// kill would not find m below another one, nor one that was out of date before.
func (c *cache) put(base int, dir Name, m *merged, current func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !current() || !c.holdsLocked(base, m.parent) {
		return
	}
	key := cacheKey{base, dir}
	if e := c.entries[key]; e != nil {
		c.dropLocked(e)
	}
	c.entries[key] = c.used.PushFront(&cached{key, m})
	if c.used.Len() > maxCached {
		c.dropLocked(c.used.Back())
	}
}

// holdsLocked reports whether m is what get answers, or a root.
//
// Preconditions: c.mu is held.
func (c *cache) holdsLocked(base int, m *merged) bool {
	if m.parent == nil {
		return true
	}
	e := c.entries[cacheKey{base, m.name}]
	return e != nil && e.Value.(*cached).m == m && m.valid()
}

// kill forgets the directory dir of the tree of base, and all below it.
func (c *cache) kill(base int, dir Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[cacheKey{base, dir}]; e != nil {
		c.dropLocked(e)
	}
}

// dropLocked takes e out and makes it invalid, and so what is below it: once
// it is out, kill could not find it any more.
//
// Preconditions: c.mu is held.
func (c *cache) dropLocked(e *list.Element) {
	entry := c.used.Remove(e).(*cached)
	delete(c.entries, entry.key)
	entry.m.dead.Store(true)
}
