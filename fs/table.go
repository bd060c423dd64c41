//go:build linux

package fs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wsfs/wsfs/overlay"
)

// A table holds the nodes.
//
// Invariants, under mu: a linked node is at each of its places in the parent's
// children, and nothing else is there; a node with several names is in links;
// a node is in ids while the kernel has lookups of it, while it has children,
// and while it is open.
type table struct {
	mu    sync.RWMutex
	ids   map[uint64]*node
	links map[uint64]*node // nodes of files with several names, by ino
	last  uint64           // the newest node number
	root  *node            // immutable

	events *events // immutable: where watches of forgotten directories end

	// gen is counted up when a directory moves, with mu held. Paths of
	// directories are kept with the gen they were derived in.
	gen atomic.Uint64
}

func (t *table) init(e *events) {
	t.events = e
	t.ids = make(map[uint64]*node)
	t.links = make(map[uint64]*node)
	t.last = rootID
	t.root = &node{id: rootID, typ: overlay.TypeDir, dir: &directory{}, lookups: 1}
	t.root.dir.path.Store(&pathAt{path: overlay.Root, gen: ^uint64(0)})
	t.ids[rootID] = t.root
}

// get returns the node with number id, nil if there is none: then the kernel
// is wrong, or forgot it.
func (t *table) get(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ids[id]
}

// path returns the path of n, and the state of n. It counts only if that is
// linked, and stays right only while the caller holds the segment's lock.
func (t *table) path(n *node) (overlay.Name, nodeState) {
	if n.id == rootID {
		return overlay.Root, linked
	}
	if n.dir != nil {
		if p := n.dir.path.Load(); p != nil && p.gen == t.gen.Load() {
			return p.path, linked
		}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pathLocked(n)
}

// pathLocked is path.
//
// Preconditions: t.mu is held.
func (t *table) pathLocked(n *node) (overlay.Name, nodeState) {
	if n.id == rootID {
		return overlay.Root, linked
	}
	if n.state != linked {
		return "", n.state
	}
	gen := t.gen.Load()
	if n.dir != nil {
		if p := n.dir.path.Load(); p != nil && p.gen == gen {
			return p.path, linked
		}
	}
	dir, state := t.pathLocked(n.parent)
	if state != linked {
		return "", state
	}
	path := dir.Join(n.name)
	if n.dir != nil {
		n.dir.path.Store(&pathAt{path: path, gen: gen})
	}
	return path, linked
}

// state returns what n's names are worth.
func (t *table) state(n *node) nodeState {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.state
}

// child returns the node at name in d, nil if there is none.
func (t *table) child(d *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return d.dir.children[name]
}

// find returns the node of the file that was found at name in d, with one
// lookup more, and makes it if need be. A node that is there and is another
// file becomes stale. It returns nil if d is no longer linked.
func (t *table) find(d *node, name string, a *overlay.Attr, seg uint8) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.state != linked {
		return nil
	}
	n := d.dir.children[name]
	if n != nil && !n.is(a) {
		t.detach(n, place{d, name}, stale)
		n = nil
	}
	if n == nil {
		n = t.links[a.Ino]
		if n != nil && n.is(a) && n.seg == seg && !t.apart(a, seg) {
			t.attach(n, place{d, name})
		} else {
			n = t.add(d, name, a, seg)
		}
	}
	if a.Nlink > 1 && n.dir == nil && !t.apart(a, seg) {
		t.links[n.ino] = n
	}
	n.lookups++
	return n
}

// apart reports whether the names of the file a are nodes of their own: those of
// a lower file below a store, which keeps no index of what it copied up, so that
// each name gets a copy.
func (t *table) apart(a *overlay.Attr, seg uint8) bool {
	return a.Source != overlay.Store && seg != t.root.seg
}

// unshare forgets that further names may be found of n.
//
// Preconditions: t.mu is held.
func (t *table) unshare(n *node) {
	if t.links[n.ino] == n {
		delete(t.links, n.ino)
	}
}

// replaced notes that the one name of n means another file now.
func (t *table) replaced(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.state == linked && n.more == nil {
		t.detach(n, place{n.parent, n.name}, stale)
	}
}

// is reports whether a is of the node's file.
func (n *node) is(a *overlay.Attr) bool { return n.ino == a.Ino && n.typ == a.Type() }

// add makes a node.
//
// Preconditions: t.mu is held; there is no node at name in d.
func (t *table) add(d *node, name string, a *overlay.Attr, seg uint8) *node {
	t.last++
	n := &node{id: t.last, ino: a.Ino, typ: a.Type(), seg: seg, state: unlinked}
	if a.IsDir() {
		n.dir = &directory{}
	}
	t.ids[n.id] = n
	if d != nil {
		t.attach(n, place{d, name})
	}
	return n
}

// anonymous makes a node without a name, with one lookup.
func (t *table) anonymous(a *overlay.Attr, seg uint8) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.add(nil, "", a, seg)
	n.lookups = 1
	return n
}

// attach gives n the name p.
//
// Preconditions: t.mu is held; there is no node at p.
func (t *table) attach(n *node, p place) {
	if p.parent.dir.children == nil {
		p.parent.dir.children = make(map[string]*node)
	}
	p.parent.dir.children[p.name] = n
	if n.state != linked {
		n.parent, n.name, n.state = p.parent, p.name, linked
		return
	}
	if n.more == nil {
		n.more = new([]place)
	}
	*n.more = append(*n.more, p)
	t.links[n.ino] = n
}

// detach takes the name p from n, which is in state then if it was the last.
//
// Preconditions: t.mu is held; n is at p.
func (t *table) detach(n *node, p place, then nodeState) {
	delete(p.parent.dir.children, p.name)
	switch {
	case n.more == nil:
		n.state = then
		t.unshare(n)
		if n.dir != nil {
			t.gen.Add(1) // what was below it must not be found by a kept path
		}
	case n.parent == p.parent && n.name == p.name:
		last := (*n.more)[len(*n.more)-1]
		n.parent, n.name = last.parent, last.name
		n.cut(len(*n.more) - 1)
	default:
		n.cut(slices.Index(*n.more, p))
	}
	t.prune(p.parent)
}

// cut removes the i-th further name.
func (n *node) cut(i int) {
	if *n.more = slices.Delete(*n.more, i, i+1); len(*n.more) == 0 {
		n.more = nil
	}
}

// forget takes count lookups from n, and n from the table if nothing needs it.
func (t *table) forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.ids[id]
	if n == nil || id == rootID {
		return
	}
	n.lookups -= min(count, n.lookups)
	t.prune(n)
}

// prune takes n from the table if nothing needs it, and its parents if they
// were there for its sake.
//
// Preconditions: t.mu is held.
func (t *table) prune(n *node) {
	for n != nil && n.id != rootID && n.lookups == 0 && n.open.Load() == nil &&
		(n.dir == nil || len(n.dir.children) == 0) && t.ids[n.id] == n {
		delete(t.ids, n.id)
		if n.dir != nil {
			n.dir.watch.end(t.events)
		}
		if n.state != linked {
			return
		}
		t.unshare(n)
		delete(n.parent.dir.children, n.name)
		if n.more != nil {
			for _, p := range *n.more {
				delete(p.parent.dir.children, p.name)
				t.prune(p.parent)
			}
		}
		n.state = unlinked
		n = n.parent
	}
}
