package disklayer

import (
	"bytes"
	"context"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

const (
	copyChunk = 1 << 20 // bytes at a time
	block     = 4096    // a run of zeros of this size becomes a hole
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyChunk); return &b }}

var zeros [block]byte

// copyData copies size bytes of from, or less if it is shorter, to the empty
// file fd, in ascending order and without setting fd's size ahead of its data.
// It reports whether fd has holes.
func (u *Upper) copyData(ctx context.Context, fd int, from overlay.Handle, size int64) (sparse bool, err error) {
	if size == 0 {
		return false, nil
	}
	if err := u.step("copy data"); err != nil {
		return false, err
	}
	src, ok := overlay.As[overlay.Filer](from)
	if !ok {
		return u.copyRead(ctx, fd, from, 0, size)
	}
	if u.clone(fd, src.FD()) {
		return true, nil
	}
	if size <= copyChunk/4 {
		return u.copyRead(ctx, fd, from, 0, size)
	}
	return u.copyExtents(ctx, fd, src.FD(), from, size)
}

// clone makes fd share the data of src and reports whether it could.
func (u *Upper) clone(fd, src int) bool {
	if u.noClone.Load() {
		return false
	}
	err := unix.IoctlFileClone(fd, src)
	if is(err, unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOSYS) {
		u.noClone.Store(true) // the upper's file system cannot
	}
	return err == nil
}

// copyExtents copies the parts of src that have data. from is src's handle.
func (u *Upper) copyExtents(ctx context.Context, fd, src int, from overlay.Handle, size int64) (sparse bool, err error) {
	end := int64(0) // of what is copied
	for end < size {
		data, err := unix.Seek(src, end, unix.SEEK_DATA)
		switch {
		case is(err, unix.ENXIO):
			data = size
		case err != nil:
			return u.copyRead(ctx, fd, from, end, size)
		}
		data = min(data, size)
		sparse = sparse || data > end
		if data == size {
			return sparse, u.endHole(fd, size)
		}
		hole, err := unix.Seek(src, data, unix.SEEK_HOLE)
		if err != nil {
			return sparse, err
		}
		hole = min(hole, size)
		done, err := u.copyRange(ctx, fd, src, from, data, hole)
		if err != nil {
			return sparse, err
		}
		if done < hole {
			return sparse, nil // src is shorter than size
		}
		end = hole
	}
	return sparse, nil
}

// copyRange copies the bytes from off to end within the kernel and returns up
// to where it came, which is less than end only at the end of src.
func (u *Upper) copyRange(ctx context.Context, fd, src int, from overlay.Handle, off, end int64) (int64, error) {
	for off < end {
		if err := ctx.Err(); err != nil {
			return off, err
		}
		if err := u.step("copy range"); err != nil {
			return off, err
		}
		in, out := off, off
		n, err := unix.CopyFileRange(src, &in, fd, &out, int(min(end-off, 16*copyChunk)), 0)
		switch {
		case is(err, unix.EINTR):
			continue
		case is(err, unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM):
			_, err := u.copyRead(ctx, fd, from, off, end)
			return end, err
		case err != nil:
			return off, err
		case n == 0:
			return off, nil
		}
		off += int64(n)
	}
	return off, nil
}

// copyRead copies the bytes from off to end by reading and writing. Blocks of
// zeros become holes.
func (u *Upper) copyRead(ctx context.Context, fd int, from io.ReaderAt, off, end int64) (sparse bool, err error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	size := off // of fd
	for off < end {
		if err := ctx.Err(); err != nil {
			return sparse, err
		}
		n, err := from.ReadAt((*buf)[:min(end-off, copyChunk)], off)
		if n == 0 && err == io.EOF {
			end = off
			break
		}
		if err != nil && err != io.EOF {
			return sparse, err
		}
		holes, to, err := u.writeSparse(fd, (*buf)[:n], off)
		if err != nil {
			return sparse, err
		}
		sparse, size = sparse || holes, max(size, to)
		off += int64(n)
	}
	if size == end {
		return sparse, nil
	}
	return sparse, u.endHole(fd, end)
}

// writeSparse writes p at off, except whole blocks of zeros. to is where the last
// byte that it wrote ends.
func (u *Upper) writeSparse(fd int, p []byte, off int64) (sparse bool, to int64, err error) {
	if err := u.step("write copy"); err != nil {
		return false, 0, err
	}
	for len(p) > 0 {
		n := 0
		for n < len(p) && !zeroBlock(p[n:]) {
			n += min(block, len(p)-n)
		}
		if err := writeAll(fd, p[:n], off); err != nil {
			return sparse, to, err
		}
		p, off = p[n:], off+int64(n)
		if n > 0 {
			to = off
		}
		for len(p) >= block && zeroBlock(p) {
			p, off, sparse = p[block:], off+block, true
		}
	}
	return sparse, to, nil
}

// zeroBlock reports whether p begins with a block of zeros.
func zeroBlock(p []byte) bool { return len(p) >= block && bytes.Equal(p[:block], zeros[:]) }

// endHole brings the size of fd to size, if it is less, by writing the last
// block: a size is set by data alone.
func (u *Upper) endHole(fd int, size int64) error {
	st, err := fstat(fd)
	if err != nil || st.Size >= size {
		return err
	}
	if err := u.step("write last block"); err != nil {
		return err
	}
	start := max(st.Size, (size-1)/block*block)
	return writeAll(fd, zeros[:size-start], start)
}

// writeAll writes all of p at off.
func writeAll(fd int, p []byte, off int64) error {
	for len(p) > 0 {
		var n int
		err := again(func() (err error) {
			n, err = unix.Pwrite(fd, p, off)
			return err
		})
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}
