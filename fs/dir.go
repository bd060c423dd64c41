//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

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
	d := f.table.get(in.NodeId)
	switch {
	case d == nil:
		return estale
	case d.dir == nil:
		return fuse.ENOTDIR
	}
	l, st := f.listing(ctx, d, in.Offset)
	if !st.Ok() {
		return st
	}
	if in.Offset < cookieDot && !add(d, fuse.DirEntry{Name: ".", Mode: overlay.TypeDir, Ino: d.ino, Off: cookieDot}) {
		return fuse.OK
	}
	if in.Offset < cookieDotDot && !add(d, fuse.DirEntry{Name: "..", Mode: overlay.TypeDir, Ino: f.parentIno(d), Off: cookieDotDot}) {
		return fuse.OK
	}
	entries := l.after(max(in.Offset, cookieDotDot))
	if len(entries) == 0 {
		d.dir.listing.CompareAndSwap(l, nil) // read to the end
	}
	for _, e := range entries {
		if !add(d, fuse.DirEntry{Name: e.Name, Mode: e.Type, Ino: e.Ino, Off: e.cookie}) {
			break
		}
	}
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
