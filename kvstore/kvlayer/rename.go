package kvlayer

import (
	"context"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Rename implements overlay.Layer: one batch of constant size whatever is
// moved. WriteBack does not count, since a commit is durable.
func (l *Layer) Rename(ctx context.Context, oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	if err := newname.Check("rename"); err != nil {
		return err
	}
	exchange := flag&overlay.Exchange != 0
	if exchange && flag&(overlay.NoReplace|overlay.LeaveWhiteout) != 0 {
		return overlay.PathError("rename", oldname, syscall.EINVAL)
	}
	return l.change(ctx, "rename", oldname, func(t *tx) error {
		m, err := t.findMove(oldname, newname)
		switch {
		case err != nil:
			return err
		case exchange:
			return t.exchange(m)
		case m.to.exists() && flag&overlay.NoReplace != 0:
			return syscall.EEXIST
		case m.from.ino == m.to.ino:
			return nil
		}
		return t.move(m, flag&overlay.LeaveWhiteout != 0)
	})
}

// A move is a rename in the making: two places and what they hold.
type move struct {
	oldname, newname overlay.Name
	fromAt, toAt     link
	from, to         entry
}

// findMove looks up both places, in the order in which rename(2) reports what is
// wrong with them.
func (t *tx) findMove(oldname, newname overlay.Name) (m move, err error) {
	m.oldname, m.newname = oldname, newname
	if m.fromAt, err = locate(t.ctx, t, oldname); err != nil {
		return m, err
	}
	if m.from, err = t.entry(m.fromAt); err != nil {
		return m, err
	}
	if !m.from.exists() {
		return m, syscall.ENOENT
	}
	if m.toAt, err = locate(t.ctx, t, newname); err != nil {
		return m, err
	}
	if m.to, err = t.entry(m.toAt); err != nil {
		return m, err
	}
	if newname != oldname && newname.Within(oldname) && m.from.typ == overlay.TypeDir {
		return m, syscall.EINVAL
	}
	return m, nil
}

// move moves a file, replacing what is at the new place.
func (t *tx) move(m move, leave bool) error {
	if m.to.exists() {
		if err := t.replace(m); err != nil {
			return err
		}
	}
	left := entry{}
	if leave {
		left = gone
	}
	r, err := t.shift(m.from.ino, m.fromAt, m.toAt)
	if err != nil {
		return err
	}
	// See overlay.Upper: what a whiteout hid does not show through a
	// directory that was never there.
	if r.isDir() && m.to.whiteout && r.redirect == "" {
		r.opaque = true
	}
	if err := t.setEntry(m.fromAt, left); err != nil {
		return err
	}
	if err := t.setEntry(m.toAt, r.entry()); err != nil {
		return err
	}
	t.log(OpRemove, m.fromAt, nil)
	t.log(OpRename, m.toAt, r)
	return nil
}

// replace takes away what the new name holds, which must be of a kind that the
// old name's file can replace.
func (t *tx) replace(m move) error {
	switch fromDir, toDir := m.from.typ == overlay.TypeDir, m.to.typ == overlay.TypeDir; {
	case m.oldname.Within(m.newname):
		return syscall.ENOTEMPTY
	case fromDir && !toDir:
		return syscall.ENOTDIR
	case !fromDir && toDir:
		return syscall.EISDIR
	}
	return t.remove(m.toAt, m.to, entry{})
}

// exchange swaps two files.
func (t *tx) exchange(m move) error {
	switch {
	case !m.to.exists():
		return syscall.ENOENT
	case m.to.ino == m.from.ino:
		return nil
	case m.to.typ == overlay.TypeDir && m.oldname.Within(m.newname):
		return syscall.EINVAL
	}
	a, err := t.shift(m.from.ino, m.fromAt, m.toAt)
	if err != nil {
		return err
	}
	b, err := t.shift(m.to.ino, m.toAt, m.fromAt)
	if err != nil {
		return err
	}
	if err := t.setEntry(m.toAt, a.entry()); err != nil {
		return err
	}
	if err := t.setEntry(m.fromAt, b.entry()); err != nil {
		return err
	}
	t.log(OpRename, m.toAt, a)
	t.log(OpRename, m.fromAt, b)
	return nil
}

// shift gives the file ino the name to in place of from, in its record and in
// the counts of both directories. The entries are the caller's.
func (t *tx) shift(ino uint64, from, to link) (*record, error) {
	r, err := t.edit(ino)
	if err != nil {
		return nil, err
	}
	i := slices.Index(r.links, from)
	if i < 0 {
		return nil, t.l.corrupt("tree: record lacks a name", t.l.keys.record(ino))
	}
	r.links[i] = to
	r.ctime = t.now
	if r.isDir() {
		r.version = t.n
	}
	t.touched(r)
	for _, side := range []struct {
		dir uint64
		by  int
	}{{from.dir, -1}, {to.dir, +1}} {
		if err := t.count(side.dir, r, side.by); err != nil {
			return nil, err
		}
		if err := t.touchDir(side.dir); err != nil {
			return nil, err
		}
	}
	return r, nil
}
