//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// Unlink removes a name of a file.
func (f *FS) Unlink(cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return f.remove(request(cancel), in, name)
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(cancel <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return f.remove(request(cancel), in, name)
}

func (f *FS) remove(ctx request, in *fuse.InHeader, name string) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	d := f.table.get(in.NodeId)
	if d == nil {
		return estale
	}
	path, _, h, st := f.byName(d, name, true)
	if !st.Ok() {
		return st
	}
	defer h.unlock()
	if st := f.secure(ctx, f.table.child(d, name), path); !st.Ok() {
		return st
	}
	if err := f.layer.Remove(ctx, path); err != nil {
		return f.status("remove", err)
	}
	f.table.unlink(d, name, unlinked)
	return fuse.OK
}

// unlink takes the name from the node that has it.
func (t *table) unlink(d *node, name string, then nodeState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := d.dir.children[name]; n != nil {
		t.detach(n, place{d, name}, then)
	}
}

// Rename flags as the kernel has them.
const (
	renameNoReplace = 1 << iota
	renameExchange
	renameWhiteout
)

// Rename moves a file.
func (f *FS) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	from, to := f.table.get(in.NodeId), f.table.get(in.Newdir)
	if from == nil || to == nil {
		return estale
	}
	ctx := request(cancel)
	m := move{f: f, from: place{from, oldName}, to: place{to, newName}}
	switch in.Flags {
	case 0:
	case renameNoReplace:
		m.flag = overlay.NoReplace
	case renameExchange:
		m.flag = overlay.Exchange
	case renameWhiteout:
		m.flag = overlay.LeaveWhiteout
	case renameNoReplace | renameWhiteout:
		m.flag = overlay.NoReplace | overlay.LeaveWhiteout
	default:
		return fuse.EINVAL
	}
	m.copyAhead(ctx)
	if st := m.lock(); !st.Ok() {
		return st
	}
	st := m.run(ctx)
	m.held.unlock()
	if st.Ok() && m.crossed {
		f.expireLater(m.to, m.from)
	}
	return st
}

// A move is a rename under way.
type move struct {
	f        *FS
	from, to place
	flag     overlay.RenameFlag

	held           held
	oldPath        overlay.Name
	newPath        overlay.Name
	oldSeg, newSeg uint8
	// crossed: the file was carried to another segment and is another now.
	crossed bool
}

// copyAhead copies the source up while no lock is held, if it is a file.
func (m *move) copyAhead(ctx request) {
	n := m.f.table.child(m.from.parent, m.from.name)
	if n != nil && n.typ == overlay.TypeReg && n.source() != overlay.Exclusive {
		m.f.prepare(ctx, n)
	}
}

// lock derives both paths and holds their segments exclusively, those of their
// directories shared.
func (m *move) lock() fuse.Status {
	f, t := m.f, &m.f.table
	for _, p := range [...]place{m.from, m.to} {
		if st := checkName(p.parent, p.name); !st.Ok() {
			return st
		}
	}
	for {
		oldDir, s1 := t.path(m.from.parent)
		newDir, s2 := t.path(m.to.parent)
		if s1 != linked || s2 != linked {
			return gone(max(s1, s2))
		}
		m.oldPath, m.newPath = oldDir.Join(m.from.name), newDir.Join(m.to.name)
		m.oldSeg, m.newSeg = f.segment(m.oldPath), f.segment(m.newPath)
		m.held = held{f: f}
		m.held.add(m.from.parent.seg, false)
		m.held.add(m.to.parent.seg, false)
		m.held.add(m.oldSeg, true)
		m.held.add(m.newSeg, true)
		m.held.lock()
		again1, s1 := t.path(m.from.parent)
		again2, s2 := t.path(m.to.parent)
		if s1 == linked && s2 == linked && again1 == oldDir && again2 == newDir {
			return fuse.OK
		}
		m.held.unlock()
	}
}

// run renames in the layer and then in the table.
//
// Preconditions: m.lock has succeeded.
func (m *move) run(ctx request) fuse.Status {
	f := m.f
	source, target := f.table.child(m.from.parent, m.from.name), f.table.child(m.to.parent, m.to.name)
	if source != nil && source == target {
		return fuse.OK // two names of one file
	}
	if m.flag&overlay.Exchange == 0 {
		if st := f.secure(ctx, target, m.newPath); !st.Ok() {
			return st
		}
	}
	if m.oldSeg != m.newSeg {
		if st := f.secure(ctx, source, m.oldPath); !st.Ok() {
			return st
		}
	}
	if err := f.layer.Rename(ctx, m.oldPath, m.newPath, m.flag); err != nil {
		return f.status("rename", err)
	}
	m.crossed = m.oldSeg != m.newSeg
	switch {
	case m.crossed:
		f.table.unlink(m.from.parent, m.from.name, stale)
		f.table.unlink(m.to.parent, m.to.name, stale)
	case m.flag&overlay.Exchange != 0:
		f.table.exchange(m.from, m.to)
	case target != nil && source != nil && target.ino == source.ino && m.unmoved(ctx):
		// Two names of one file that we took for two: nothing happened.
	default:
		f.table.move(m.from, m.to)
	}
	if source != nil && !m.crossed && source.typ == overlay.TypeReg {
		f.refresh(ctx, source, m.newPath)
	}
	return fuse.OK
}

// unmoved reports whether the old name is still there.
func (m *move) unmoved(ctx request) bool {
	_, err := m.f.layer.Lstat(ctx, m.oldPath)
	return err == nil
}

// move gives the node at from the name to; the node that had it is unlinked.
func (t *table) move(from, to place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := to.parent.dir.children[to.name]; old != nil {
		t.detach(old, to, unlinked)
	}
	if n := from.parent.dir.children[from.name]; n != nil {
		t.place(n, from, to)
		t.prune(from.parent)
	}
}

// exchange swaps the nodes at a and b.
func (t *table) exchange(a, b place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, y := a.parent.dir.children[a.name], b.parent.dir.children[b.name]
	if x != nil {
		t.place(x, a, b)
	}
	if y != nil {
		t.place(y, b, a)
	}
	if x != nil { // y's old place is x's new one
		b.parent.dir.children[b.name] = x
	}
	t.prune(a.parent)
	t.prune(b.parent)
}

// place changes the name from of n to to.
//
// Preconditions: t.mu is held; n is at from.
func (t *table) place(n *node, from, to place) {
	delete(from.parent.dir.children, from.name)
	if to.parent.dir.children == nil {
		to.parent.dir.children = make(map[string]*node)
	}
	to.parent.dir.children[to.name] = n
	if n.parent == from.parent && n.name == from.name {
		n.parent, n.name = to.parent, to.name
	} else {
		for i, p := range *n.more {
			if p == from {
				(*n.more)[i] = to
				break
			}
		}
	}
	if n.dir != nil {
		t.gen.Add(1)
	}
}

// expireLater has the kernel look the names up again, once the request that
// calls has been answered or is about to be: the kernel holds locks of the
// directories until then.
func (f *FS) expireLater(places ...place) {
	k := f.notify()
	if k == nil {
		return
	}
	go func() {
		for _, p := range places {
			k.EntryNotify(p.parent.id, p.name)
		}
	}()
}
