//go:build linux

package fs

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

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

// A listing is what an open directory handle lists: the names as they were when
// it was last read from the start.
type listing struct {
	mu      sync.Mutex
	loaded  bool
	entries []listed // ascending by cookie
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

// OpenDir opens a directory. The kernel keeps its listing where changes by
// others are noticed.
func (f *FS) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	d := f.table.get(in.NodeId)
	switch {
	case d == nil:
		return estale
	case d.dir == nil:
		return fuse.ENOTDIR
	}
	f.watchDir(request(cancel), d)
	stale := d.dir.watch.stale.Swap(false)
	if d.dir.watch.active() || (f.can.watch == nil && d.source() == overlay.Exclusive) {
		out.OpenFlags |= fuse.FOPEN_CACHE_DIR
		if !stale {
			out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		}
	}
	out.Fh = f.files.add(&handle{n: d, dir: &listing{}})
	return fuse.OK
}

// ReleaseDir closes a directory.
func (f *FS) ReleaseDir(in *fuse.ReleaseIn) { f.files.take(in.Fh) }

// ReadDir lists names.
func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(request(cancel), in, out, func(_ *node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists names with what Lookup would answer.
func (f *FS) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	ctx := request(cancel)
	return f.list(ctx, in, out, func(d *node, e fuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false // nothing was looked up, so nothing has to be forgotten
		}
		if e.Off > cookieDotDot {
			// A name that is gone, or cannot be looked up, is listed
			// without: the kernel asks when somebody wants to know.
			if st := f.lookup(ctx, d, e.Name, entry); !st.Ok() {
				*entry = fuse.EntryOut{}
			}
		}
		return true
	})
}

// list calls add with the entries behind in.Offset until it returns false.
func (f *FS) list(ctx request, in *fuse.ReadIn, out *fuse.DirEntryList, add func(*node, fuse.DirEntry) bool) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil || h.dir == nil {
		return fuse.EBADF
	}
	d, l := h.n, h.dir
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.Offset == 0 || !l.loaded {
		if st := f.load(ctx, d, l); !st.Ok() {
			return st
		}
	}
	if in.Offset < cookieDot && !add(d, fuse.DirEntry{Name: ".", Mode: overlay.TypeDir, Ino: d.ino, Off: cookieDot}) {
		return fuse.OK
	}
	if in.Offset < cookieDotDot && !add(d, fuse.DirEntry{Name: "..", Mode: overlay.TypeDir, Ino: f.parentIno(d), Off: cookieDotDot}) {
		return fuse.OK
	}
	for _, e := range l.after(max(in.Offset, cookieDotDot)) {
		if !add(d, fuse.DirEntry{Name: e.Name, Mode: e.Type, Ino: e.Ino, Off: e.cookie}) {
			break
		}
	}
	return fuse.OK
}

// load reads d into l. A directory that was removed is empty.
func (f *FS) load(ctx request, d *node, l *listing) fuse.Status {
	path, h, st := f.byNode(d)
	if st == fuse.ENOENT {
		l.entries, l.loaded = nil, true
		return fuse.OK
	}
	if !st.Ok() {
		return st
	}
	defer h.unlock()
	entries, err := f.layer.ReadDir(ctx, path)
	if err != nil {
		return staleIfGone(f.status("readdir", err))
	}
	l.entries, l.loaded = arrange(entries), true
	return fuse.OK
}

// parentIno returns the inode number of d's parent; the root is its own.
func (f *FS) parentIno(d *node) uint64 {
	f.table.mu.RLock()
	defer f.table.mu.RUnlock()
	if d.parent == nil {
		return d.ino
	}
	return d.parent.ino
}

// FsyncDir makes the names in a directory durable.
func (f *FS) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d, ctx := f.table.get(in.NodeId), request(cancel)
	if d == nil {
		return estale
	}
	if f.can.syncDir == nil && f.can.sync != nil {
		return f.status("fsyncdir", f.can.sync.SyncAll(ctx))
	}
	for f.can.syncDir != nil {
		path, h, st := f.byNode(d)
		if st == fuse.ENOENT {
			return fuse.OK // it was removed, and is empty
		}
		if !st.Ok() {
			return st
		}
		// No lock is held while the disk works, so the directory may be moved:
		// then it is found anew.
		h.unlock()
		st = f.status("fsyncdir", f.can.syncDir.SyncDir(ctx, path))
		if again, state := f.table.path(d); state == linked && again != path {
			continue
		}
		return st
	}
	return fuse.OK
}

// StatFs tells the space of the file system that changes go to.
func (f *FS) StatFs(cancel <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	s := overlay.Statfs{Bsize: blockSize}
	if f.can.statfs != nil {
		var err error
		if s, err = f.can.statfs.Statfs(request(cancel)); err != nil {
			return f.status("statfs", err)
		}
	}
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail,
		Files: s.Files, Ffree: s.Ffree,
		Bsize: max(s.Bsize, 512), Frsize: max(s.Bsize, 512),
		NameLen: overlay.MaxComponent,
	}
	return fuse.OK
}
