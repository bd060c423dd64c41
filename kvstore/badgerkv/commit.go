package badgerkv

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/wsfs/wsfs/kvstore"
)

// maxGroup is how many bytes of requests are committed together. One request
// may have more, and is then committed alone.
const maxGroup = 1 << 20

// A committer is what the committing goroutine works with.
type committer struct {
	store *Store
	last  uint64 // the number of the last commit
	// nextBlob is a blob number that was never used. Numbers start above every
	// one that an earlier Store can have used: each commit uses less than 2^20.
	nextBlob uint64
	// broken is why nothing is committed any more: badger failed in the middle
	// of a commit, and what is in its memory may not be on the disk.
	broken error
	room   room
}

// A group is a set of requests that become one transaction of badger.
type group struct {
	txn      *badger.Txn
	requests []*request
	size     int
	// writes are the last write of each key, in the order in which keys were
	// first written.
	writes []write
	index  map[string]int // of a key in writes
}

// commit commits requests until there will be no more.
func (s *Store) commit() {
	defer close(s.committed)
	var next *request // taken, but not of the last group
	for {
		if next == nil {
			r, ok := <-s.requests
			if !ok {
				return
			}
			next = r
		}
		next = s.committer.round(next)
	}
}

// round commits first and what can be joined to it, tells the outcome, and
// returns a request that has to wait for the next round.
func (c *committer) round(first *request) (next *request) {
	g := &group{txn: c.store.db.NewTransactionAt(c.last, true), index: map[string]int{}}
	defer g.txn.Discard()
	for r := first; r != nil; r = c.poll() {
		if !g.takes(r) {
			next = r
			break
		}
		if err := c.accept(g, r); err != nil {
			r.done <- err
			continue
		}
		g.add(r)
	}
	err := c.write(g)
	if err == nil {
		c.publish(g)
	}
	for _, r := range g.requests {
		r.done <- err
	}
	return next
}

// poll returns a request that waits already, or nil.
func (c *committer) poll() *request {
	select {
	case r := <-c.store.requests:
		return r // nil once the channel is closed
	default:
		return nil
	}
}

// takes reports whether r can be in g: if it fits, and checks no key that g
// writes, whose version is not known yet.
func (g *group) takes(r *request) bool {
	if len(g.requests) > 0 && g.size+r.size > maxGroup {
		return false
	}
	for _, op := range r.checks {
		if _, written := g.index[string(dataKey(op.Key))]; written {
			return false
		}
	}
	return true
}

// accept returns why r cannot be done, if so: a Check that does not hold, or no
// room for it.
func (c *committer) accept(g *group, r *request) error {
	if err := g.check(r); err != nil {
		return err
	}
	return c.room.admits(r.size)
}

// check returns ErrConflict unless r's Checks hold.
func (g *group) check(r *request) error {
	for _, op := range r.checks {
		var version uint64
		switch record, err := g.txn.Get(dataKey(op.Key)); {
		case err == nil:
			version = record.Version()
		case !errors.Is(err, badger.ErrKeyNotFound):
			return readError(err)
		}
		if version != op.Version {
			return fmt.Errorf("%w: key %q has version %d, not %d", kvstore.ErrConflict, op.Key, version, op.Version)
		}
	}
	return nil
}

// add takes r into g.
func (g *group) add(r *request) {
	g.requests = append(g.requests, r)
	g.size += r.size
	for _, w := range r.writes {
		if i, ok := g.index[w.key]; ok {
			g.writes[i] = w
			continue
		}
		g.index[w.key] = len(g.writes)
		g.writes = append(g.writes, w)
	}
}

// write makes g's writes durable, all or none.
func (c *committer) write(g *group) error {
	if len(g.writes) == 0 {
		return nil
	}
	if c.broken != nil {
		return c.broken
	}
	st := stage{txn: g.txn, footprint: entryOverhead} // of the end of the transaction
	for _, w := range g.writes {
		if err := c.stage(&st, w); err != nil {
			return err
		}
	}
	if err := st.set(markerKey, nil, 0); err != nil {
		return err
	}
	if err := c.room.reserve(st.footprint); err != nil {
		return err
	}
	if err := g.txn.CommitAt(c.last+1, nil); err != nil {
		c.broken = fmt.Errorf("%w: %s: commit failed, reopen the store: %v", kvstore.ErrUnavailable, c.store.dir, err)
		return c.broken
	}
	c.last++
	c.store.timeline.advance(c.last)
	c.store.tidier.garbage.Add(st.garbage)
	rotated, err := c.room.committed(st.footprint)
	if err != nil {
		c.broken = fmt.Errorf("%w: %v", kvstore.ErrUnavailable, err)
	}
	if rotated {
		c.store.tidier.tableWritten()
		c.store.tidier.hold()
	}
	return nil // the group is durable, whatever becomes of the next
}

// publish tells the watchers what g has changed.
func (c *committer) publish(g *group) {
	keys := make([]kvstore.Key, 0, len(g.writes))
	for _, w := range g.writes {
		if w.key[0] == dataSpace {
			keys = append(keys, kvstore.Key(w.key[1:]))
		}
	}
	c.store.feed.Publish(keys)
}
