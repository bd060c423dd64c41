package kvlayer

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/kvstore"
)

// A tx is a change of the segment in the making: what was read and what is to
// be written, as of one head. commit writes it in one batch which checks that
// the head is still the same. So each change is made on what it has read.
type tx struct {
	l   *Layer
	ctx context.Context
	now time.Time
	n   uint64 // the number of the commit in the making

	head    head // the new one
	seg     *segHead
	version uint64 // of the old head, in the store
	gen     uint64 // of the cache

	recs  map[uint64]*recChange
	ents  map[link]*entChange
	puts  []kvstore.Op // chunks
	logs  []logLine
	touch []touch
	// quiet: the number of the commit is not taken; nothing a reader sees changes.
	quiet bool
	// stamped, if set, is told the commit's stamp before the batch is written.
	stamped func(stamp uint64)
	// done are called with l.mu held once the batch is written.
	done []func()
}

// A recChange is what a record was when it was read, and what it becomes.
type recChange struct{ old, new *record } // nil: none
// An entChange is what an entry was when it was read, and what it becomes.
type entChange struct{ old, new entry }

// A logLine is what the commit does to the file of one name.
type logLine struct {
	at link
	op Op
	r  *record // nil after OpRemove
}

// update makes one change: fn reads and writes through the tx, perhaps several
// times, until nobody else has committed in between. An error of fn counts
// only if what it has read was the newest. After an error nothing has changed,
// or, after errUnknown, perhaps all of it.
func (l *Layer) update(ctx context.Context, fn func(t *tx) error) error {
	l.commit.Lock()
	defer l.commit.Unlock()
	// A change that was begun is not given up half way by an interrupt.
	ctx = context.WithoutCancel(ctx)
	deadline := time.Now().Add(4 * l.opt.Timeout)
	for try := 0; ; try++ {
		t, err := l.begin(ctx)
		if err != nil {
			return err
		}
		if err = fn(t); err == nil {
			err = t.commit()
		} else if !errors.Is(err, errConflict) {
			var moved bool
			if moved, err = t.moved(err); !moved {
				return err
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errUnknown):
			return l.settle(t)
		case !errors.Is(err, errConflict):
			return err
		case time.Now().After(deadline):
			l.opt.Log.Error("kvlayer: others commit all the time", "ns", l.ns, "segment", l.opt.Segment, "tries", try)
			return syscall.EIO
		}
		time.Sleep(rand.N(min(time.Millisecond<<min(try, 5), 20*time.Millisecond)))
		if err := l.reload(ctx); err != nil {
			return err
		}
	}
}

// begin starts a tx on the head that the cache holds.
func (l *Layer) begin(ctx context.Context) (*tx, error) {
	l.mu.Lock()
	known := l.cache.known && l.cache.version != 0
	l.mu.Unlock()
	if !known {
		if err := l.reload(ctx); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &tx{
		l: l, ctx: ctx, now: l.opt.Now(),
		head: l.cache.head.clone(), version: l.cache.version, gen: l.cache.gen,
		recs: map[uint64]*recChange{}, ents: map[link]*entChange{},
	}
	t.seg = t.head.seg(l.opt.Segment)
	t.n = t.head.commit + 1
	return t, nil
}

// moved reports whether the head has changed since the tx began, so that err
// may come from what is no longer true. Otherwise it returns err.
func (t *tx) moved(err error) (bool, error) {
	item, _, getErr := t.l.get(t.ctx, t.l.keys.head)
	if getErr != nil || item.Version == t.version {
		return false, err
	}
	return true, errConflict
}

// record returns the record of ino as the tx has it so far, nil for none. The
// caller must not change it.
func (t *tx) record(ino uint64) (*record, error) {
	if c := t.recs[ino]; c != nil {
		return c.new, nil
	}
	return t.l.record(t.ctx, ino)
}

// edit returns the record of ino for the caller to change.
func (t *tx) edit(ino uint64) (*record, error) {
	if c := t.recs[ino]; c != nil && c.new != nil {
		return c.new, nil
	}
	old, err := t.record(ino)
	switch {
	case err != nil:
		return nil, err
	case old == nil:
		return nil, t.l.corrupt("tree: no record", t.l.keys.record(ino))
	}
	c := &recChange{old: old, new: old.clone()}
	t.recs[ino] = c
	return c.new, nil
}

// create adds r as a new record and gives it a number.
func (t *tx) create(r *record) {
	t.seg.ino++
	r.ino = t.seg.ino
	t.recs[r.ino] = &recChange{new: r}
}

// drop removes the record of ino.
func (t *tx) drop(ino uint64) error {
	if _, err := t.edit(ino); err != nil {
		return err
	}
	t.recs[ino].new = nil
	return nil
}

// entry returns what a directory says of a name as the tx has it so far.
func (t *tx) entry(at link) (entry, error) {
	if c := t.ents[at]; c != nil {
		return c.new, nil
	}
	return t.l.entry(t.ctx, at)
}

// setEntry has the directory say e of a name; the zero entry: nothing.
func (t *tx) setEntry(at link, e entry) error {
	if c := t.ents[at]; c != nil {
		c.new = e
		return nil
	}
	old, err := t.entry(at)
	if err != nil {
		return err
	}
	t.ents[at] = &entChange{old: old, new: e}
	return nil
}

// touched notes that the attributes or content of r changed.
func (t *tx) touched(r *record) {
	var self uint64
	if r.isDir() {
		self = r.ino
	}
	if len(r.links) == 0 {
		t.touch = append(t.touch, touch{self: self})
	}
	for _, at := range r.links {
		t.touch = append(t.touch, touch{link: at, self: self})
	}
}

// log notes what happens to the file r at a place. Directories have no log: their
// names are in those of the files.
func (t *tx) log(op Op, at link, r *record) {
	if r != nil && r.isDir() {
		return
	}
	t.logs = append(t.logs, logLine{at: at, op: op, r: r})
}

// settle finds out what became of a tx whose batch may have been written, and
// returns nil if it was.
func (l *Layer) settle(t *tx) error {
	l.mu.Lock()
	l.cache.version = 0
	l.mu.Unlock()
	l.down.Store(0) // ask once more, even if it does not answer
	if written, err := l.wrote(t.ctx, t.n, t.seg.stamp); err != nil || !written {
		return errUnknown
	}
	if err := l.reload(t.ctx); err != nil {
		return errUnknown
	}
	l.committed(t)
	return nil
}

// wrote reports whether commit n is the one with the given stamp.
func (l *Layer) wrote(ctx context.Context, n, stamp uint64) (bool, error) {
	item, found, err := l.get(ctx, l.keys.commit(n))
	if err != nil || !found {
		return false, err
	}
	info, err := decodeCommitInfo(item.Value)
	if err != nil {
		return false, l.corrupt("commit", item.Key)
	}
	return info.stamp == stamp, nil
}
