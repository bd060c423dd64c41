//go:build linux

package fs

import (
	"sync/atomic"

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
	mappers int // those of them that can be mapped and written to

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

// mappable reports whether the kernel may change the file without noting that it
// changed: by a store to a mapping of the backing file. After a write it asks
// for the attributes that it has changed.
func (o *opened) mappable() bool { return o.mode == passthrough && o.mappers > 0 }

// enter counts a handle that is about to be opened, so that the node's mode
// stays. leave, or a handle's end, takes it back.
func (n *node) enter(maps bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil {
		o = &opened{}
		n.open.Store(o)
	}
	o.handles++
	if maps {
		o.mappers++
	}
}

// leave ends one handle of n, and after the last one closes the file.
func (f *FS) leave(n *node, maps bool) {
	n.mu.Lock()
	o := n.open.Load()
	o.handles--
	if maps {
		o.mappers--
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
