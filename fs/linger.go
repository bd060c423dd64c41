//go:build linux

package fs

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// Between LOOKUP and OPEN a file can lose its name to another. The kernel then
// looks up once more, and gives up when the same happens again. So a name at
// which it happened is contended for a while: a LOOKUP of it takes hold of the
// file at once, and the OPEN finds it.

const (
	// lingerTime is how long a name stays contended and a file is held.
	lingerTime = time.Second
	// maxLingering bounds the names and the files.
	maxLingering = 256
)

// lingering holds the contended names and the files held for them.
type lingering struct {
	some atomic.Bool // there are names or files

	mu    sync.Mutex
	names []contended
	held  []grip
}

type contended struct {
	place
	until time.Time
}

// A grip is what was taken hold of: a regular file, or a link's target.
type grip struct {
	n      *node
	file   *file
	target string
	until  time.Time
}

// contend notes that n was replaced before it could be used.
func (f *FS) contend(n *node) {
	f.table.mu.RLock()
	p := place{n.parent, n.name}
	f.table.mu.RUnlock()
	if p.parent == nil {
		return
	}
	l := &f.linger
	l.mu.Lock()
	defer l.mu.Unlock()
	until := time.Now().Add(lingerTime)
	if i := slices.IndexFunc(l.names, func(c contended) bool { return c.place == p }); i >= 0 {
		l.names[i].until = until
		return
	}
	if len(l.names) < maxLingering {
		l.names = append(l.names, contended{p, until})
	}
	if !l.some.Swap(true) {
		time.AfterFunc(lingerTime, l.expire)
	}
}

// expire lets go of what is over.
func (l *lingering) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.names = slices.DeleteFunc(l.names, func(c contended) bool { return now.After(c.until) })
	l.held = slices.DeleteFunc(l.held, func(g grip) bool {
		if !now.After(g.until) {
			return false
		}
		g.drop()
		return true
	})
	if len(l.names)+len(l.held) > 0 {
		time.AfterFunc(lingerTime, l.expire)
	} else {
		l.some.Store(false)
	}
}

// contested reports whether name in d is contended.
func (l *lingering) contested(d *node, name string) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.names, func(c contended) bool { return c.place == place{d, name} })
}

// openContested opens the regular file at path, whose segment the caller holds,
// and returns its attributes; nil if there is none or it cannot be opened, which
// the kernel's OPEN will find, too.
func (f *FS) openContested(ctx request, path overlay.Name) (overlay.Attr, *file) {
	if f.inUpper(ctx, path) {
		w, err := f.layer.OpenFile(ctx, path, 0, overlay.Perm{})
		if err != nil {
			return overlay.Attr{}, nil
		}
		fl := f.newFile(w, w)
		a, err := w.Stat(ctx)
		if err != nil {
			fl.put()
			return a, nil
		}
		return a, fl
	}
	fl, a, st := f.openFile(ctx, path)
	if !st.Ok() {
		return a, nil
	}
	return a, fl
}

// foundOpen is found for a file that is open as fl, and takes hold of it.
func (f *FS) foundOpen(d *node, name string, a *overlay.Attr, seg uint8, out *fuse.EntryOut, seen sighting, fl *file) fuse.Status {
	n := f.table.find(d, name, a, seg)
	if n == nil {
		fl.put()
		return fuse.ENOENT
	}
	f.entry(out, d, n, a, seen)
	// What is held is for the call that looks up now. Any other has to look up
	// itself, or it would get the old file long after it was replaced.
	out.SetEntryTimeout(0)
	f.linger.hold(grip{n: n, file: fl})
	return fuse.OK
}

// gripLink takes hold of the target of the link at path, and has the kernel
// look it up each time.
func (f *FS) gripLink(ctx request, d *node, name string, path overlay.Name, out *fuse.EntryOut) {
	n := f.table.child(d, name)
	target, err := f.layer.Readlink(ctx, path)
	if n == nil || err != nil {
		return // READLINK will fail, too
	}
	out.SetEntryTimeout(0)
	f.linger.hold(grip{n: n, target: target})
}

// letGo drops what is held of n, which the kernel is about to keep.
func (l *lingering) letGo(n *node) {
	if !l.some.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(g grip) bool {
		if g.n == n {
			g.drop()
		}
		return g.n == n
	})
}

// hold keeps g for a while, unless its node is held already.
func (l *lingering) hold(g grip) {
	g.until = time.Now().Add(lingerTime)
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.held, func(other grip) bool { return other.n == g.n }) {
		g.drop()
		return
	}
	if len(l.held) == maxLingering {
		l.held[0].drop()
		l.held = slices.Delete(l.held, 0, 1)
	}
	l.held = append(l.held, g)
}

// drop lets go of what is held.
func (g grip) drop() {
	if g.file != nil {
		g.file.put()
	}
}

// gripped returns what is held of n; its file comes with a reference.
func (f *FS) gripped(n *node) (g grip, ok bool) {
	l := &f.linger
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.held, func(g grip) bool { return g.n == n })
	if i < 0 {
		return grip{}, false
	}
	if g = l.held[i]; g.file != nil {
		g.file.refs.Add(1)
	}
	return g, true
}

// regrip has n's handles use the file that is held of it, if there is one and n
// has no name any more.
func (f *FS) regrip(n *node) bool {
	g, ok := f.gripped(n)
	if !ok || g.file == nil {
		return false
	}
	if f.table.state(n) == linked {
		g.file.put()
		return false
	}
	n.install(g.file).put()
	return true
}

// removed deals with a call on n failing with st: a file that lost its name
// before it was opened is found if it was taken hold of, and is contended from
// now on. The status makes the kernel look the name up again, which may mean
// another file by now, or be free.
func (f *FS) removed(n *node, st fuse.Status) fuse.Status {
	if st = staleIfGone(st); st == estale {
		f.contend(n)
	}
	return st
}
