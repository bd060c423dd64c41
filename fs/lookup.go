//go:build linux

package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// Lookup answers what the name in a directory means. An absent name is an
// answer too, which the kernel keeps.
func (f *FS) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d := f.table.get(in.NodeId)
	if d == nil {
		return estale
	}
	return f.lookup(request(cancel), d, name, out)
}

func (f *FS) lookup(ctx request, d *node, name string, out *fuse.EntryOut) fuse.Status {
	f.watchDir(ctx, d)
	path, seg, h, st := f.byName(d, name, false)
	if !st.Ok() {
		return st
	}
	defer h.unlock()
	seen := d.sight()
	if f.linger.contested(d, name) {
		if a, fl := f.openContested(ctx, path); fl != nil {
			return f.foundOpen(d, name, &a, seg, out, seen, fl)
		}
	}
	a, err := f.layer.Lstat(ctx, path)
	if err != nil {
		st := f.status("lstat", err)
		if st == fuse.ENOENT {
			return f.absent(d, name, out, seen)
		}
		return st
	}
	if st := f.found(d, name, &a, seg, out, seen); !st.Ok() {
		return st
	}
	if a.Type() == overlay.TypeLink && f.linger.contested(d, name) {
		f.gripLink(ctx, d, name, path, out)
	}
	return fuse.OK
}

// found answers with the file a at name in d.
func (f *FS) found(d *node, name string, a *overlay.Attr, seg uint8, out *fuse.EntryOut, seen sighting) fuse.Status {
	n := f.table.find(d, name, a, seg)
	if n == nil {
		return fuse.ENOENT
	}
	f.linger.letGo(n)
	f.entry(out, d, n, a, seen)
	return fuse.OK
}

// absent answers for a name that does not exist in d: with no node where the
// kernel may keep that for a time, with ENOENT otherwise.
func (f *FS) absent(d *node, name string, out *fuse.EntryOut, seen sighting) fuse.Status {
	*out = fuse.EntryOut{}
	switch {
	case f.can.watch == nil && d.source() == overlay.Exclusive:
		out.SetEntryTimeout(Unlimited)
	case seen.undisturbed(d) && d.dir.watch.rememberAbsent(name):
		out.SetEntryTimeout(Unlimited)
	case !seen.disturbed:
		out.SetEntryTimeout(Unwatched)
	default:
		return fuse.ENOENT
	}
	return fuse.OK
}

// Forget takes lookups from a node that the kernel no longer needs.
func (f *FS) Forget(id, lookups uint64) { f.table.forget(id, lookups) }
