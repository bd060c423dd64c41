//go:build linux

package fs

import (
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// maxAbsent bounds the absent names of a watched directory that the kernel may
// keep without limit. They have to be remembered: when any name may have come
// into being, each is invalidated.
const maxAbsent = 4096

// maxPending bounds the changed names of a directory that wait to be handled;
// with more, all its names count as changed.
const maxPending = 1024

// A watch is how a directory is watched.
type watch struct {
	mu      sync.Mutex
	stop    func() // nil unless watched
	foreign bool   // it counts as a directory of others

	// on is stop != nil. refused is set if watching failed; it is not tried
	// again before the directory is forgotten.
	on, refused atomic.Bool

	// changes counts events.
	changes atomic.Uint64

	// absent holds names the kernel keeps as absent; pending the names of
	// events not handled yet, all of them if any. Protected by mu.
	absent  map[string]struct{}
	pending map[string]struct{}
	any     bool
	queued  bool
}

// active reports whether changes of the directory are noticed.
func (w *watch) active() bool { return w.on.Load() }

// rememberAbsent notes that the kernel keeps name as absent. It reports false
// if there are too many.
func (w *watch) rememberAbsent(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.absent[name]; known {
		return true
	}
	if len(w.absent) >= maxAbsent {
		return false
	}
	if w.absent == nil {
		w.absent = make(map[string]struct{})
	}
	w.absent[name] = struct{}{}
	return true
}

// end takes the watch back. It does not wait for the layer.
func (w *watch) end(e *events) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(e)
}

// endLocked is end.
//
// Preconditions: w.mu is held.
func (w *watch) endLocked(e *events) {
	if w.stop == nil {
		return
	}
	e.retire(w.stop)
	if w.foreign {
		e.watching.Add(-1)
	}
	w.stop = nil
	w.on.Store(false)
}

// A sighting is a moment at which a directory was looked at.
type sighting struct {
	watched   bool
	changes   uint64
	disturbed bool // set by undisturbed
}

// sight notes how d is watched, before a lookup.
func (n *node) sight() sighting {
	w := &n.dir.watch
	return sighting{watched: w.active(), changes: w.changes.Load()}
}

// undisturbed reports whether d was watched since the sighting and no event
// came: then what was looked up since may be kept.
func (s *sighting) undisturbed(d *node) bool {
	if !s.watched {
		return false
	}
	w := &d.dir.watch
	s.disturbed = w.changes.Load() != s.changes
	return !s.disturbed && w.active()
}

// events carries what watches report to the kernel. One goroutine does, without
// a lock held, since the kernel takes locks of its own on a notification that
// somebody who waits for an answer may hold.
type events struct {
	f *FS

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*node  // directories with pending changes
	retired []func() // stops of forgotten directories
	running bool
	closed  bool

	watching atomic.Int64 // directories watched
	// lost counts how often a layer could not say what changed.
	lost atomic.Uint64
}

func (e *events) init(f *FS) {
	e.f = f
	e.wake.L = &e.mu
}

// watchDir watches d, unless it is watched. A directory that others cannot
// change is watched at no cost, and one of the upper layer may have a part in
// another, so the layer is always asked.
func (f *FS) watchDir(ctx request, d *node) {
	if f.can.watch == nil || d.dir == nil {
		return
	}
	w := &d.dir.watch
	if w.on.Load() || w.refused.Load() {
		return
	}
	foreign := d.source() != overlay.Exclusive
	if foreign && f.events.watching.Load() >= int64(f.opt.Watches) {
		return
	}
	path, h, st := f.byNode(d)
	if !st.Ok() {
		return
	}
	defer h.unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		return
	}
	stop, err := f.can.watch.Watch(ctx, path, func(child string) { f.events.report(d, child) })
	if err != nil {
		w.refused.Store(true)
		return
	}
	w.stop, w.foreign = stop, foreign
	w.on.Store(true)
	if foreign {
		f.events.watching.Add(1)
	}
}

// report is called by the layer: child of d changed, or any if it is "".
func (e *events) report(d *node, child string) {
	w := &d.dir.watch
	w.changes.Add(1)
	w.mu.Lock()
	queue := !w.queued
	w.queued = true
	switch {
	case child == "" || len(w.pending) >= maxPending:
		w.any = true
		w.pending = nil
	case !w.any:
		if w.pending == nil {
			w.pending = make(map[string]struct{})
		}
		w.pending[child] = struct{}{}
	}
	w.mu.Unlock()
	if queue {
		e.mu.Lock()
		e.queue = append(e.queue, d)
		e.start()
		e.mu.Unlock()
	}
}

// retire has stop called later.
func (e *events) retire(stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = append(e.retired, stop)
	e.start()
}

// start makes sure that the goroutine runs.
//
// Preconditions: e.mu is held.
func (e *events) start() {
	if !e.running && !e.closed {
		e.running = true
		go e.run()
	}
	e.wake.Signal()
}

// stop ends the goroutine once it has nothing left to do.
func (e *events) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.wake.Signal()
}

func (e *events) run() {
	for {
		e.mu.Lock()
		for len(e.queue) == 0 && len(e.retired) == 0 && !e.closed {
			e.wake.Wait()
		}
		queue, retired := e.queue, e.retired
		e.queue, e.retired = nil, nil
		if len(queue) == 0 && len(retired) == 0 {
			e.running = false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		for _, stop := range retired {
			stop()
		}
		for _, d := range queue {
			e.handle(d)
		}
	}
}

// handle tells the kernel of the pending changes of d.
func (e *events) handle(d *node) {
	w := &d.dir.watch
	w.mu.Lock()
	if w.any {
		// The watch may not cover what came into being: the next lookup
		// watches anew, before it looks.
		w.endLocked(e)
	}
	pending, any := w.pending, w.any
	w.pending, w.any, w.queued = nil, false, false
	if any {
		pending, w.absent = w.absent, nil
	}
	w.mu.Unlock()
	k := e.f.notify()
	if k == nil {
		return
	}
	names := make(map[string]struct{}, len(pending))
	for name := range pending {
		names[name] = struct{}{}
	}
	if any {
		e.lost.Add(1)
		for _, name := range e.f.table.names(d) {
			names[name] = struct{}{}
		}
	}
	listed := any
	for name := range names {
		if e.changed(k, d, name) {
			listed = true
		}
	}
	if listed {
		e.f.relist(k, d)
	} else {
		k.InodeNotify(d.id, -1, 0)
	}
}

// changed tells the kernel that name in d changed, and reports whether the name
// may have begun or ceased to exist.
func (e *events) changed(k Kernel, d *node, name string) (listed bool) {
	w := &d.dir.watch
	w.mu.Lock()
	delete(w.absent, name)
	w.mu.Unlock()
	n := e.f.table.child(d, name)
	if n != nil && e.same(d, name, n) {
		// A new inode that the kernel does not know yet is in the answer to
		// a lookup that runs: the entry is dropped once that has ended.
		if k.InodeNotify(n.id, -1, 0) == fuse.OK {
			return false
		}
	}
	k.EntryNotify(d.id, name)
	return true
}

// same reports whether name in d still is the file of n.
func (e *events) same(d *node, name string, n *node) bool {
	path, _, h, st := e.f.byName(d, name, false)
	if !st.Ok() {
		return false
	}
	defer h.unlock()
	a, err := e.f.layer.Lstat(request(nil), path)
	return err == nil && n.is(&a)
}

// names returns the names of the nodes in d.
func (t *table) names(d *node) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	names := make([]string, 0, len(d.dir.children))
	for name := range d.dir.children {
		names = append(names, name)
	}
	return names
}
