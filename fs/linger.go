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
		if g.file != nil {
			g.file.put()
		}
		return true
	})
	if len(l.names)+len(l.held) > 0 {
		time.AfterFunc(lingerTime, l.expire)
	} else {
		l.some.Store(false)
	}
}

// contested reports whether name in d is contended, and its node n not held.
func (l *lingering) contested(d *node, name string, n *node) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.names, func(c contended) bool { return c.place == place{d, name} }) &&
		!slices.ContainsFunc(l.held, func(g grip) bool { return g.n == n })
}

// grip takes hold of n, whose path is path, if name in d is contended. The
// caller holds the segment. Where it fails the kernel's OPEN does, too.
func (f *FS) grip(ctx request, d *node, name string, n *node, path overlay.Name) {
	l := &f.linger
	if !l.contested(d, name, n) {
		return
	}
	g := grip{n: n, until: time.Now().Add(lingerTime)}
	switch n.typ {
	case overlay.TypeReg:
		if f.inUpper(ctx, path) {
			if w, err := f.layer.OpenFile(ctx, path, 0, overlay.Perm{}); err == nil {
				g.file = f.newFile(w, w)
			}
		} else if hd, err := f.layer.Open(ctx, path); err == nil {
			g.file = f.newFile(hd, nil)
		}
	case overlay.TypeLink:
		g.target, _ = f.layer.Readlink(ctx, path)
	}
	if g.file == nil && g.target == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == maxLingering {
		if l.held[0].file != nil {
			l.held[0].file.put()
		}
		l.held = slices.Delete(l.held, 0, 1)
	}
	l.held = append(l.held, g)
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
