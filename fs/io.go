//go:build linux

package fs

import (
	"errors"
	"io"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// data is the answer to a READ: bytes in the transport's buffer. It has
// neither a descriptor nor a vector, so that no transport copies it again.
type data []byte

func (d data) Bytes([]byte) ([]byte, fuse.Status) { return d, fuse.OK }
func (d data) Size() int                          { return len(d) }
func (d data) Done()                              {}

// use returns the file that calls on h go to, with a reference. It opens the
// file if nobody has read it yet.
func (f *FS) use(ctx request, h *handle) (*file, fuse.Status) {
	if h.own != nil {
		h.own.refs.Add(1)
		return h.own, fuse.OK
	}
	n := h.n
	if fl := n.shared(); fl != nil {
		return fl, fuse.OK
	}
	path, held, st := f.byNode(n)
	if !st.Ok() {
		if fl := n.shared(); fl != nil { // opened as the name went
			return fl, fuse.OK
		}
		return nil, st
	}
	defer held.unlock()
	hd, err := f.layer.Open(ctx, path)
	if err != nil {
		return nil, staleIfGone(f.status("open", err))
	}
	return n.install(f.newFile(hd, nil)), fuse.OK
}

// shared returns the file that n's handles share with a reference, nil if none
// is open.
func (n *node) shared() *file {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil || o.file == nil {
		return nil
	}
	o.file.refs.Add(1)
	return o.file
}

// writable returns the file that h writes to, with a reference.
func (f *FS) writable(h *handle) (*file, fuse.Status) {
	fl := h.own
	if fl == nil {
		if fl = h.n.shared(); fl == nil {
			return nil, fuse.EBADF
		}
	} else {
		fl.refs.Add(1)
	}
	if fl.w == nil {
		fl.put()
		return nil, fuse.EBADF
	}
	return fl, fuse.OK
}

// Read reads from an open file.
func (f *FS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h := f.files.get(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	fl, st := f.use(request(cancel), h)
	if !st.Ok() {
		return nil, st
	}
	defer fl.put()
	count, err := fl.ReadAt(buf, int64(in.Offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, f.status("read", err)
	}
	return data(buf[:count]), fuse.OK
}

// Write writes to an open file.
func (f *FS) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	return f.Writev(cancel, in, [][]byte{p})
}

// Writev writes to an open file. A short count with OK says that the rest could
// not be written; the error comes with the next write.
func (f *FS) Writev(cancel <-chan struct{}, in *fuse.WriteIn, parts [][]byte) (uint32, fuse.Status) {
	h := f.files.get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	fl, st := f.writable(h)
	if !st.Ok() {
		return 0, st
	}
	defer fl.put()
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		if st := f.clearPrivileges(request(cancel), h.n, fl); !st.Ok() {
			return 0, st
		}
	}
	total, off := 0, int64(in.Offset)
	for _, p := range parts {
		count, err := fl.w.WriteAt(p, off)
		total += count
		off += int64(count)
		if err != nil && total == 0 {
			return 0, f.status("write", err)
		}
		if err != nil {
			break
		}
	}
	return uint32(total), fuse.OK
}

// clearPrivileges takes set-user-id and its kin from n before it is written to.
// The kernel asks for it with each write of an ordinary user, so the answer is
// remembered.
func (f *FS) clearPrivileges(ctx request, n *node, fl *file) fuse.Status {
	n.mu.Lock()
	plain, seen := n.told.plain, n.told.suspected
	n.mu.Unlock()
	if plain {
		return fuse.OK
	}
	if _, err := fl.w.SetAttr(ctx, overlay.SetAttr{Valid: overlay.ClearPrivileges}); err != nil {
		return f.status("setattr", err)
	}
	n.mu.Lock()
	n.told.plain = n.told.suspected == seen // else it may have got some since
	n.mu.Unlock()
	return fuse.OK
}

// suspect forgets what n is known not to have.
func (n *node) suspect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.plain, n.told.bare = false, false
	n.told.suspected++
}

// Flush commits what a handle of a store file wrote: its error is close's.
func (f *FS) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil || !h.write {
		return fuse.OK
	}
	fl, st := f.writable(h)
	if !st.Ok() {
		return st
	}
	defer fl.put()
	return f.status("flush", fl.w.Flush(request(cancel)))
}

// Fsync makes a file durable.
func (f *FS) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	ctx := request(cancel)
	fl, st := f.use(ctx, h)
	if !st.Ok() {
		return st
	}
	defer fl.put()
	if fl.w != nil {
		return f.status("fsync", fl.w.Sync(ctx))
	}
	// A file open for reading may hold what others wrote to it before.
	if host, ok := overlay.As[overlay.Filer](fl.Handle); ok && h.n.source() == overlay.Exclusive && host.FD() >= 0 {
		return f.status("fsync", unix.Fsync(host.FD()))
	}
	return fuse.OK
}

// Fallocate changes the allocation of an open file.
func (f *FS) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	fl, st := f.writable(h)
	if !st.Ok() {
		return st
	}
	defer fl.put()
	alloc, ok := overlay.As[overlay.Allocator](fl.w)
	if !ok {
		return eopnotsupp
	}
	ctx := request(cancel)
	// The request has no flag for it, and ordinary users cannot have
	// CAP_FSETID.
	if in.Uid != 0 {
		if st := f.clearPrivileges(ctx, h.n, fl); !st.Ok() {
			return st
		}
	}
	return f.status("fallocate", alloc.Allocate(ctx, int64(in.Offset), int64(in.Length), in.Mode))
}

// Lseek finds data and holes. A file whose layer does not know them is data
// with a hole at its end.
func (f *FS) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := f.files.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	ctx := request(cancel)
	fl, st := f.use(ctx, h)
	if !st.Ok() {
		return st
	}
	defer fl.put()
	if seeker, ok := overlay.As[overlay.HoleSeeker](fl.Handle); ok {
		off, err := seeker.SeekHole(ctx, int64(in.Offset), int(in.Whence))
		out.Offset = uint64(off)
		return f.status("lseek", err)
	}
	a, err := fl.Stat(ctx)
	switch {
	case err != nil:
		return f.status("fstat", err)
	case in.Offset >= uint64(a.Size):
		return enxio
	case in.Whence == unix.SEEK_DATA:
		out.Offset = in.Offset
	case in.Whence == unix.SEEK_HOLE:
		out.Offset = uint64(a.Size)
	default:
		return fuse.EINVAL
	}
	return fuse.OK
}

// CopyFileRange copies between two open host files. The kernel copies through
// its page cache where the answer is EOPNOTSUPP or EXDEV.
func (f *FS) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, to := f.files.get(in.FhIn), f.files.get(in.FhOut)
	if from == nil || to == nil {
		return 0, fuse.EBADF
	}
	ctx := request(cancel)
	src, st := f.use(ctx, from)
	if !st.Ok() {
		return 0, st
	}
	defer src.put()
	dst, st := f.writable(to)
	if !st.Ok() {
		return 0, st
	}
	defer dst.put()
	in1, ok1 := overlay.As[overlay.Filer](src.Handle)
	out1, ok2 := overlay.As[overlay.Filer](dst.w)
	if !ok1 || !ok2 || in1.FD() < 0 || out1.FD() < 0 {
		return 0, eopnotsupp
	}
	if in.Uid != 0 {
		if st := f.clearPrivileges(ctx, to.n, dst); !st.Ok() {
			return 0, st
		}
	}
	offIn, offOut := int64(in.OffIn), int64(in.OffOut)
	count, err := unix.CopyFileRange(in1.FD(), &offIn, out1.FD(), &offOut, int(min(in.Len, maxCopy)), 0)
	return uint32(count), f.status("copy_file_range", err)
}

// maxCopy bounds one copy_file_range, since the answer has 32 bits and nobody
// can interrupt it.
const maxCopy = 64 << 20

// Ioctl answers as a file system without any.
func (f *FS) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return enotty
}
