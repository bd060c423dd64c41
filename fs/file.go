//go:build linux

package fs

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A file is an open file of the layer that several handles of a node use. It
// is closed when the node and all running calls have let go of it.
type file struct {
	overlay.Handle
	w    overlay.WriteHandle // the same, nil if it was opened for reading only
	refs atomic.Int32
	f    *FS
}

// newFile returns a file with one reference.
func (f *FS) newFile(h overlay.Handle, w overlay.WriteHandle) *file {
	fl := &file{Handle: h, w: w, f: f}
	fl.refs.Store(1)
	return fl
}

// put lets go of one reference.
func (fl *file) put() {
	if fl.refs.Add(-1) > 0 {
		return
	}
	if err := fl.Close(); err != nil {
		fl.f.log.Error("fs: a file could not be closed", "err", err)
	}
}

// An ioMode is how the kernel reads and writes an inode.
type ioMode uint8

const (
	undecided   ioMode = iota
	cached             // through READ and WRITE, with the kernel's page cache
	passthrough        // from and to the backing file
)

// opened is what a node keeps while it is open. Protected by the node's mu.
type opened struct {
	handles int // handles answered or about to be, whose RELEASE was not handled
	writers int // those of them that may write

	mode    ioMode
	backing int32 // the kernel's number of the backing file, in passthrough

	// file is what handles without an own file use. It is nil until somebody
	// reads (opens are lazy), and never read-only while the mode is passthrough.
	file *file
	// own are handles that write to an own file, oldest first.
	own []*handle

	// kept are attributes set on an unlinked file that cannot be changed,
	// because it is a lower layer's.
	kept overlay.SetAttr
}

// live reports whether the kernel may change the file without telling us.
func (o *opened) live() bool { return o.mode == passthrough && o.writers > 0 }

// enter counts a handle that is about to be opened, so that the node's mode
// stays. leave, or a handle's end, takes it back.
func (n *node) enter(write bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil {
		o = &opened{}
		n.open.Store(o)
	}
	o.handles++
	if write {
		o.writers++
	}
}

// leave ends one handle of n, and after the last one closes the file.
func (f *FS) leave(n *node, write bool) {
	n.mu.Lock()
	o := n.open.Load()
	o.handles--
	if write {
		o.writers--
	}
	if o.handles > 0 {
		n.mu.Unlock()
		return
	}
	n.open.Store(nil)
	n.mu.Unlock()
	if o.mode == passthrough {
		f.unregister(o.backing)
	}
	if o.file != nil {
		o.file.put()
	}
	f.table.release(n)
}

// release drops n from the table if the kernel forgot it while it was open.
func (t *table) release(n *node) {
	t.mu.RLock()
	needed := n.lookups > 0
	t.mu.RUnlock()
	if needed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(n)
}

// borrow returns n's open file with a reference, nil if there is none: that of
// the newest handle with an own file, else the shared one.
func (n *node) borrow() *file {
	if n.open.Load() == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil {
		return nil
	}
	fl := o.file
	if len(o.own) > 0 {
		fl = o.own[len(o.own)-1].own
	}
	if fl != nil {
		fl.refs.Add(1)
	}
	return fl
}

// install makes fl the file that n's handles share and returns the one in use
// with a reference: the present one, if it can do as much, or fl. The node
// takes over the caller's reference of fl.
func (n *node) install(fl *file) *file {
	n.mu.Lock()
	o := n.open.Load()
	old := o.file
	if old != nil && (old.w != nil || fl.w == nil) {
		old.refs.Add(1)
		n.mu.Unlock()
		fl.put()
		return old
	}
	o.file = fl
	fl.refs.Add(1)
	n.mu.Unlock()
	if old != nil {
		old.put()
	}
	return fl
}

// replace makes fl the file that n's handles read, whatever they read before.
func (n *node) replace(fl *file) {
	n.mu.Lock()
	o := n.open.Load()
	if o == nil || (o.file != nil && o.file.w != nil) {
		n.mu.Unlock()
		fl.put()
		return
	}
	old := o.file
	o.file = fl
	n.mu.Unlock()
	if old != nil {
		old.put()
	}
}

// kept applies to a, the attributes of n's open file, what was set on the
// unlinked node alone.
func (n *node) kept(a overlay.Attr) overlay.Attr {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil || o.kept.Valid == 0 {
		return a
	}
	apply(&a, &o.kept)
	return a
}

// apply sets the fields of a that set says.
func apply(a *overlay.Attr, set *overlay.SetAttr) {
	if set.Valid&overlay.SetMode != 0 {
		a.Mode = a.Mode&^overlay.ModeMask | set.Mode
	}
	if set.Valid&overlay.SetUID != 0 {
		a.UID = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		a.GID = set.GID
	}
	if set.Valid&overlay.SetAtime != 0 {
		a.Atime = set.Atime
	}
	if set.Valid&overlay.SetMtime != 0 {
		a.Mtime = set.Mtime
	}
}

// keep adds set to what is set on the unlinked node alone.
func (o *opened) keep(set overlay.SetAttr) {
	k := &o.kept
	now := time.Now()
	if set.Valid&overlay.SetAtimeNow != 0 {
		set.Atime, set.Valid = now, set.Valid|overlay.SetAtime
	}
	if set.Valid&overlay.SetMtimeNow != 0 {
		set.Mtime, set.Valid = now, set.Valid|overlay.SetMtime
	}
	if set.Valid&overlay.SetMode != 0 {
		k.Mode = set.Mode
	}
	if set.Valid&overlay.SetUID != 0 {
		k.UID = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		k.GID = set.GID
	}
	if set.Valid&overlay.SetAtime != 0 {
		k.Atime = set.Atime
	}
	if set.Valid&overlay.SetMtime != 0 {
		k.Mtime = set.Mtime
	}
	k.Valid |= set.Valid & (overlay.SetMode | overlay.SetUID | overlay.SetGID | overlay.SetAtime | overlay.SetMtime)
}

// A handle is what an OPEN or OPENDIR gave the kernel.
type handle struct {
	n     *node // immutable
	write bool  // immutable
	own   *file // immutable: the handle's own file, nil if it uses the node's
	dir   *listing
}

// handles are the open handles by number. Numbers are used again.
type handles struct {
	mu    sync.RWMutex
	slots []*handle
	free  []uint64
}

// add returns the number of h.
func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.free) - 1; last >= 0 {
		i := t.free[last]
		t.free = t.free[:last]
		t.slots[i] = h
		return i
	}
	t.slots = append(t.slots, h)
	return uint64(len(t.slots) - 1)
}

// get returns the handle with number i, nil if there is none.
func (t *handles) get(i uint64) *handle {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i >= uint64(len(t.slots)) {
		return nil
	}
	return t.slots[i]
}

// take removes and returns the handle with number i, nil if there is none.
func (t *handles) take(i uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i >= uint64(len(t.slots)) || t.slots[i] == nil {
		return nil
	}
	h := t.slots[i]
	t.slots[i] = nil
	t.free = append(t.free, i)
	return h
}

// takeAll removes and returns all handles.
func (t *handles) takeAll() []*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(t.slots), func(h *handle) bool { return h == nil })
	t.slots, t.free = nil, nil
	return all
}
