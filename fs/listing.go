//go:build linux

package fs

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// There is no OPENDIR: the default answer to the first, ENOSYS, tells the kernel
// to do without (Linux 5.1). It keeps every listing until it is told to drop it,
// and asks for the rest of one by the cookie it got to.

// Cookies are positions in a directory: the entries after cookie c are those
// with larger ones. An entry's cookie depends on its name alone, so that it is
// right in any listing of the directory. It has to be: the kernel keeps
// listings, and goes on in one of them from a position in another.
const (
	cookieDot    = 1
	cookieDotDot = 2
	firstCookie  = 1 << 8
	cookieMask   = 1<<62 - 1
)

// cookieSeed makes the order of a listing differ between processes, so that
// nobody can choose names that collide.
var cookieSeed = maphash.MakeSeed()

// cookie returns the cookie of name, before collisions are resolved.
func cookie(name string) uint64 {
	return max(maphash.String(cookieSeed, name)&cookieMask&^(firstCookie-1), firstCookie)
}

// A listing is what a directory held when somebody last read it from the start.
type listing struct {
	entries []listed // ascending by cookie; immutable
	// outdated: the directory was changed by others since.
	outdated atomic.Bool
}

type listed struct {
	cookie uint64
	overlay.Entry
}

// arrange sorts entries by cookie. Names whose cookies collide are told apart
// by the low bits, in the order of their bytes.
func arrange(entries []overlay.Entry) []listed {
	list := make([]listed, len(entries))
	for i, e := range entries {
		list[i] = listed{cookie(e.Name), e}
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.cookie, b.cookie), cmp.Compare(a.Name, b.Name))
	})
	for i := 1; i < len(list); i++ {
		if list[i].cookie <= list[i-1].cookie {
			list[i].cookie = list[i-1].cookie + 1
		}
	}
	return list
}

// after returns the entries behind cookie c.
func (l *listing) after(c uint64) []listed {
	i, found := slices.BinarySearchFunc(l.entries, c, func(e listed, c uint64) int { return cmp.Compare(e.cookie, c) })
	if found {
		i++
	}
	return l.entries[i:]
}

// maxListings bounds the listings that are kept for readers in the middle of a
// directory.
const maxListings = 64

// listings are the directories whose listings are kept, in a ring.
type listings struct {
	mu   sync.Mutex
	held [maxListings]*node
	next int
}

// hold has d keep its listing until as many others came after it.
func (l *listings) hold(d *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.held[:], d) {
		return
	}
	if old := l.held[l.next]; old != nil {
		old.dir.listing.Store(nil)
	}
	l.held[l.next] = d
	l.next = (l.next + 1) % maxListings
}

// listing returns the listing of d for a reader at the cookie offset: a new one
// from the start, else one that was read before if it is still there. To read a
// large directory again at each step, because it changes all the time, would
// take for ever; but the kernel may add the rest of an old listing to what it
// keeps of a new one.
func (f *FS) listing(ctx request, d *node, offset uint64) (*listing, fuse.Status) {
	if l := d.dir.listing.Load(); l != nil && offset != 0 {
		if l.outdated.Load() {
			f.fade(d)
		}
		return l, fuse.OK
	}
	f.watchDir(ctx, d)
	if !d.dir.watch.active() && (f.can.watch != nil || d.source() != overlay.Exclusive) {
		f.fade(d)
	}
	path, h, st := f.byNode(d)
	if st == fuse.ENOENT {
		return &listing{}, fuse.OK // it was removed
	}
	if !st.Ok() {
		return nil, st
	}
	defer h.unlock()
	before := d.dir.watch.changes.Load()
	entries, err := f.layer.ReadDir(ctx, path)
	if err != nil {
		return nil, staleIfGone(f.status("readdir", err))
	}
	l := &listing{entries: arrange(entries)}
	d.dir.listing.Store(l)
	if d.dir.watch.changes.Load() != before {
		l.outdated.Store(true) // relist may have come too early to say so
	}
	f.lists.hold(d)
	return l, fuse.OK
}

// fade has the kernel drop its listing of d after the time for which it may keep
// what changes unnoticed.
func (f *FS) fade(d *node) {
	if d.dir.fading.Swap(true) {
		return
	}
	time.AfterFunc(Unwatched, func() {
		d.dir.fading.Store(false)
		if k := f.notify(); k != nil {
			f.relist(k, d)
		}
	})
}

// fence is a name that no directory has, since it is too long.
var fence = strings.Repeat("-", overlay.MaxComponent+1)

// relist has the kernel drop its listing of d, also one that it is about to put
// together from an answer of ours: an entry's notification waits for whoever
// reads d at the moment.
func (f *FS) relist(k Kernel, d *node) {
	if l := d.dir.listing.Load(); l != nil {
		l.outdated.Store(true)
	}
	k.EntryNotify(d.id, fence)
	k.InodeNotify(d.id, 0, 0)
}
