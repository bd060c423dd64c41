//go:build linux

package fs

import (
	"strings"

	"github.com/wsfs/wsfs/overlay"
)

// Invalidate has the kernel forget what it has cached of name: whether it
// exists, its attributes, its content, the listing of its directory. Whoever
// changes the layer behind the mount's back (a tool, an undo) calls it after
// the change, without a lock that a handler may wait for, and with name's old
// and new place where it moved. When it returns, every call that begins sees
// the change. Handles that are open keep the file they have.
func (f *FS) Invalidate(name overlay.Name) {
	k := f.notify()
	if k == nil {
		return
	}
	if name == overlay.Root {
		f.invalidateAll(k)
		return
	}
	d := f.table.known(name.Dir())
	if d == nil {
		return // the kernel cannot know what is in a directory it does not know
	}
	base := name.Base()
	d.dir.watch.changes.Add(1) // answers to lookups that run are not kept
	if n := f.table.child(d, base); n != nil && n.dir == nil {
		if n.open.Load() != nil {
			// Those who have it open keep it; others get the new one.
			f.table.unlink(d, base, stale)
		}
		f.forgetContent(k, n)
	}
	f.events.changed(k, d, base)
	f.relist(k, d)
}

// forgetContent drops the kernel's attributes and pages of n.
func (f *FS) forgetContent(k Kernel, n *node) {
	n.mu.Lock()
	n.told.valid = false
	n.mu.Unlock()
	k.InodeNotify(n.id, 0, 0)
}

// invalidateAll drops what the kernel has of every node.
func (f *FS) invalidateAll(k Kernel) {
	for _, n := range f.table.all() {
		if n.dir == nil {
			f.forgetContent(k, n)
			continue
		}
		n.dir.watch.changes.Add(1)
		names := f.table.names(n)
		n.dir.watch.mu.Lock()
		for name := range n.dir.watch.absent {
			names = append(names, name)
		}
		n.dir.watch.absent = nil
		n.dir.watch.mu.Unlock()
		for _, name := range names {
			f.expire(k, n, name)
		}
		f.relist(k, n)
	}
}

// expire has the kernel ask again what name in d is. Where it can, the entry
// stays until then, and with it whoever works in it.
func (f *FS) expire(k Kernel, d *node, name string) {
	if x, ok := k.(Expirer); ok && f.table.child(d, name) != nil {
		x.ExpireEntry(d.id, name)
		return
	}
	k.EntryNotify(d.id, name)
}

// known returns the node of the directory name, nil if the kernel does not know
// it.
func (t *table) known(name overlay.Name) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.root
	if name == overlay.Root {
		return n
	}
	for c := range strings.SplitSeq(string(name), "/") {
		if n = n.dir.children[c]; n == nil || n.dir == nil {
			return nil
		}
	}
	return n
}

// all returns all nodes.
func (t *table) all() []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	nodes := make([]*node, 0, len(t.ids))
	for _, n := range t.ids {
		nodes = append(nodes, n)
	}
	return nodes
}
