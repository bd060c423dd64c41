package kvlayer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// Limits of the cache. Over them some of it is dropped.
const (
	maxCachedRecords = 64 << 10
	maxCachedEntries = 256 << 10
)

// A cache holds what was read of the segment. What it holds is as of head or
// newer, never older: a commit that checks head may rely on all of it, and a
// read that has just seen head in the store is up to date.
//
// All fields are protected by Layer.mu.
type cache struct {
	known   bool
	head    head
	version uint64 // the head's in the store; 0 after a commit of our own, which does not tell
	gen     uint64 // changes whenever head does; who read before may not insert
	recs    map[uint64]*record
	dirs    map[uint64]*dirCache
	entries int // in all dirs
}

// A dirCache holds names of a directory.
type dirCache struct {
	// names holds what is known, the zero entry for what is known not to be.
	names map[string]entry
	// whole: every name that exists is in names.
	whole bool
	// list is the directory's listing, nil if it has to be made.
	list []overlay.Entry
}

// resetLocked empties the cache and has it begin at h.
//
// Preconditions: the layer's mu is held.
func (c *cache) resetLocked(h head, version uint64) {
	*c = cache{known: true, head: h, version: version, gen: c.gen + 1,
		recs: map[uint64]*record{}, dirs: map[uint64]*dirCache{}}
}

// dirLocked returns what is cached of the directory dir, to be added to.
//
// Preconditions: the layer's mu is held; so it is for the methods below.
func (c *cache) dirLocked(dir uint64) *dirCache {
	d := c.dirs[dir]
	if d == nil {
		d = &dirCache{names: map[string]entry{}}
		c.dirs[dir] = d
	}
	return d
}

// putRecordLocked caches r, or, if it is nil, that there is no file ino.
func (c *cache) putRecordLocked(ino uint64, r *record) {
	if len(c.recs) >= maxCachedRecords {
		dropSome(c.recs)
	}
	c.recs[ino] = r
}

// putEntryLocked caches what a directory says of one name.
func (c *cache) putEntryLocked(at link, e entry) {
	if c.entries >= maxCachedEntries {
		c.dirs, c.entries = map[uint64]*dirCache{}, 0
	}
	d := c.dirLocked(at.dir)
	old, had := d.names[at.name]
	if !had {
		c.entries++
	}
	d.names[at.name] = e
	if old != e {
		d.list = nil
	}
}

// putDirLocked caches all that a directory says. names are the cache's from then
// on.
func (c *cache) putDirLocked(dir uint64, names map[string]entry) {
	if old := c.dirs[dir]; old != nil {
		c.entries -= len(old.names)
	}
	if c.entries+len(names) > maxCachedEntries {
		c.dirs, c.entries = map[uint64]*dirCache{}, 0
	}
	c.dirs[dir] = &dirCache{names: names, whole: true}
	c.entries += len(names)
}

// dropSome removes an eighth of m.
func dropSome(m map[uint64]*record) {
	n := len(m) / 8
	for k := range m {
		if n--; n < 0 {
			return
		}
		delete(m, k)
	}
}

// fresh brings the cache up to what the store holds now. If the store does not
// answer, what is cached still counts, and only reads of anything else fail.
func (l *Layer) fresh(ctx context.Context) error {
	err := l.reload(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.cache.known {
		return err
	}
	return nil
}

// reload is fresh, but reports a store that does not answer.
func (l *Layer) reload(ctx context.Context) error {
	item, found, err := l.get(ctx, l.keys.head)
	if err != nil {
		return err
	}
	h, err := l.decodeHead(item, found)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adoptLocked(h, item.Version)
	return nil
}

// decodeHead returns the head in item. A namespace without one is empty.
func (l *Layer) decodeHead(item kvstore.Item, found bool) (head, error) {
	if !found {
		return head{}, nil
	}
	h, err := decodeHead(item.Value)
	if err != nil {
		return head{}, l.corrupt("head", item.Key)
	}
	return h, nil
}

// adoptLocked has the cache go on with a head that was read from the store.
// A commit of another segment leaves what is cached as it is; a head older
// than the cache's was read before our own last commit.
//
// Preconditions: l.mu is held.
func (l *Layer) adoptLocked(h head, version uint64) {
	c := &l.cache
	mine, theirs := *c.head.seg(l.opt.Segment), *h.seg(l.opt.Segment)
	switch {
	case c.known && (h.commit < c.head.commit || version < c.version):
	case c.known && mine.last == theirs.last && mine.stamp == theirs.stamp:
		c.head, c.version = h, version
	default:
		c.resetLocked(h, version)
	}
}

// corrupt reports a value that cannot be decoded.
func (l *Layer) corrupt(what string, key kvstore.Key) error {
	l.opt.Log.Error("kvlayer: corrupt "+what, "ns", l.ns, "segment", l.opt.Segment, "key", []byte(key))
	return syscall.EIO
}

// record returns the record of ino, nil if there is none.
func (l *Layer) record(ctx context.Context, ino uint64) (*record, error) {
	l.mu.Lock()
	r, ok := l.cache.recs[ino]
	gen := l.cache.gen
	l.mu.Unlock()
	if ok {
		return r, nil
	}
	item, found, err := l.get(ctx, l.keys.record(ino))
	if err != nil || !found {
		return nil, err
	}
	r, err = decodeRecord(ino, item.Value)
	if err != nil {
		return nil, l.corrupt("record", item.Key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cache.gen == gen {
		l.cache.putRecordLocked(ino, r)
	}
	return r, nil
}

// entry returns what the directory at.dir says of at.name.
func (l *Layer) entry(ctx context.Context, at link) (entry, error) {
	l.mu.Lock()
	gen := l.cache.gen
	if d := l.cache.dirs[at.dir]; d != nil {
		if e, ok := d.names[at.name]; ok || d.whole {
			l.mu.Unlock()
			return e, nil
		}
	}
	l.mu.Unlock()
	item, found, err := l.get(ctx, l.keys.entry(at))
	if err != nil {
		return entry{}, err
	}
	var e entry
	if found {
		if e, err = decodeEntry(item.Value); err != nil {
			return entry{}, l.corrupt("entry", item.Key)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cache.gen == gen {
		l.cache.putEntryLocked(at, e)
	}
	return e, nil
}

// names returns all that the directory dir says, whiteouts, too. The caller
// must not change it, and holds it no longer than l.mu if it is the cache's.
func (l *Layer) names(ctx context.Context, dir uint64) (map[string]entry, error) {
	l.mu.Lock()
	gen := l.cache.gen
	if d := l.cache.dirs[dir]; d != nil && d.whole {
		defer l.mu.Unlock()
		return maps.Clone(d.names), nil
	}
	l.mu.Unlock()
	names, err := l.scanDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cache.gen == gen {
		l.cache.putDirLocked(dir, maps.Clone(names))
	}
	return names, nil
}

// scanDir reads all that the directory dir says, past the cache.
func (l *Layer) scanDir(ctx context.Context, dir uint64) (map[string]entry, error) {
	names := map[string]entry{}
	prefix := l.keys.dir(dir)
	err := l.scan(ctx, prefix, func(item kvstore.Item) (bool, error) {
		e, err := decodeEntry(item.Value)
		if err != nil {
			return false, l.corrupt("entry", item.Key)
		}
		names[string(item.Key[len(prefix):])] = e
		return true, nil
	})
	return names, err
}

// listing returns the files in the directory dir, ascending. The caller must
// not change it.
func (l *Layer) listing(ctx context.Context, dir uint64) ([]overlay.Entry, error) {
	l.mu.Lock()
	if d := l.cache.dirs[dir]; d != nil && d.whole && d.list != nil {
		defer l.mu.Unlock()
		return d.list, nil
	}
	gen := l.cache.gen
	l.mu.Unlock()
	names, err := l.names(ctx, dir)
	if err != nil {
		return nil, err
	}
	list := listOf(names, l.opt.Dev)
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.cache.dirs[dir]; l.cache.gen == gen && d != nil && d.whole {
		d.list = list
	}
	return list, nil
}

// listOf returns the files among names, ascending; never nil.
func listOf(names map[string]entry, dev uint64) []overlay.Entry {
	list := make([]overlay.Entry, 0, len(names))
	for name, e := range names {
		if e.exists() {
			list = append(list, overlay.Entry{Name: name, Type: e.typ, Dev: dev, Ino: e.ino, Origin: e.origin})
		}
	}
	slices.SortFunc(list, func(a, b overlay.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list
}
