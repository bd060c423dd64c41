package kvlayer

import (
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// commit writes the tx. See apply for its errors; EDQUOT over the quota.
func (t *tx) commit() error {
	if len(t.recs)+len(t.ents)+len(t.puts) == 0 && !t.quiet {
		return nil
	}
	b := &kvstore.Batch{}
	b.Check(t.l.keys.head, t.version)
	if err := t.tally(); err != nil {
		return err
	}
	if !t.quiet {
		t.head.commit, t.seg.last, t.seg.stamp = t.n, t.n, rand.Uint64()
	}
	if t.stamped != nil {
		t.stamped(t.seg.stamp)
	}
	b.Put(t.l.keys.head, t.head.encode())
	b.Ops = append(b.Ops, t.puts...)
	t.writeRecords(b)
	t.writeEntries(b)
	if !t.quiet {
		if err := t.writeHistory(b); err != nil {
			return err
		}
	}
	if err := t.l.apply(t.ctx, b); err != nil {
		return err
	}
	t.l.committed(t)
	return nil
}

// tally brings the sums in the head up to date.
func (t *tx) tally() error {
	var grown int64
	for _, c := range t.recs {
		grown += sizeOf(c.new) - sizeOf(c.old)
		switch {
		case c.old == nil && c.new != nil:
			t.seg.files++
		case c.old != nil && c.new == nil:
			t.seg.files--
		}
	}
	t.head.bytes += grown
	t.seg.bytes += grown
	if quota := t.l.opt.Quota; quota > 0 && grown > 0 && t.head.bytes > quota {
		return syscall.EDQUOT
	}
	return nil
}

// sizeOf is what r counts for in the sums of the head; nil counts nothing.
func sizeOf(r *record) int64 {
	if r == nil {
		return 0
	}
	return r.size
}

// writeRecords adds the changed records, and what they were before. A file
// that did not exist needs no undo record: no name leads to it.
func (t *tx) writeRecords(b *kvstore.Batch) {
	for ino, c := range t.recs {
		if c.old != nil {
			b.Put(before(t.l.keys.undoRecords(ino), t.n), c.old.encode())
		}
		switch {
		case c.new != nil:
			b.Put(t.l.keys.record(ino), c.new.encode())
		case c.old != nil:
			b.Delete(t.l.keys.record(ino))
		}
	}
}

// absent is the undo value of an entry that was not there.
var absent = []byte{0}

// writeEntries adds the changed entries, and what they were before.
func (t *tx) writeEntries(b *kvstore.Batch) {
	for at, c := range t.ents {
		if c.old == c.new {
			continue
		}
		was := absent
		if c.old != (entry{}) {
			was = c.old.encode()
		}
		b.Put(before(t.l.keys.undoEntries(at), t.n), was)
		if c.new == (entry{}) {
			b.Delete(t.l.keys.entry(at))
		} else {
			b.Put(t.l.keys.entry(at), c.new.encode())
		}
		moved := touch{link: at}
		if c.old.typ == overlay.TypeDir {
			moved.self = c.old.ino
		}
		t.touch = append(t.touch, moved)
	}
}

// writeHistory adds what is kept of the commit itself, and a line for each name
// whose file it changed.
func (t *tx) writeHistory(b *kvstore.Batch) error {
	o := &t.l.opt
	info := commitInfo{when: t.now, owner: o.Owner, host: o.Host, session: o.Session, who: o.Who, stamp: t.seg.stamp, touched: t.touch}
	b.Put(t.l.keys.commit(t.n), info.encode())
	for _, line := range t.logs {
		path, err := t.path(line.at)
		if err != nil {
			return err
		}
		v := Version{Op: line.op, When: t.now, Host: o.Host, Session: o.Session, Who: o.Who, Path: string(path)}
		if line.r != nil && line.r.isReg() {
			v.Size, v.Digest = line.r.size, line.r.digest()
		}
		b.Put(before(t.l.keys.log(line.at), t.n), v.encode())
	}
	return nil
}

// maxDepth bounds the walk up from a directory, which ends at the root unless
// the store is corrupt.
const maxDepth = 1 << 16

// path returns the whole name of a place.
func (t *tx) path(at link) (overlay.Name, error) {
	var up []string
	for depth := 0; ; depth++ {
		up = append(up, at.name)
		if at.dir == rootIno {
			break
		}
		dir, err := t.record(at.dir)
		if err != nil {
			return "", err
		}
		if dir == nil || len(dir.links) != 1 || depth > maxDepth {
			return "", t.l.corrupt("tree: directory without a place", t.l.keys.record(at.dir))
		}
		at = dir.links[0]
	}
	name := overlay.Root
	for _, c := range slices.Backward(up) {
		name = name.Join(c)
	}
	return name, nil
}

// committed has the cache and the open files follow a tx that was written.
func (l *Layer) committed(t *tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.cache
	ours := c.gen == t.gen || c.head.seg(l.opt.Segment).stamp == t.seg.stamp
	if c.gen == t.gen {
		c.head, c.version = t.head, 0
	}
	if ours {
		c.gen++
		for ino, ch := range t.recs {
			c.putRecordLocked(ino, ch.new)
		}
		for at, ch := range t.ents {
			c.putEntryLocked(at, ch.new)
		}
	}
	for ino, ch := range t.recs {
		switch f := l.open[ino]; {
		case f == nil:
		case ch.new == nil:
			l.orphanLocked(f, ch.old)
		default:
			f.follow(ch.new)
		}
	}
	for _, fn := range t.done {
		fn()
	}
}
