package kvlayer

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// blockSize is the unit in which uncommitted content is kept.
const blockSize = 1 << smallShift

// A body is the content of an open file: committed content with uncommitted
// blocks over it. Blocks are in memory, or in a file without a name.
type body struct {
	under   content // what was committed
	version uint64  // by which commit
	visible int64   // what under holds from here on was cut off
	size    int64

	blocks  map[int64][]byte // by number; what a short block lacks is zeros
	spooled map[int64]bool   // the blocks that are in spool, at their place in the file
	spool   *os.File         // nil if there is none
}

// A gap is a part of a read that no block covers.
type gap struct {
	p   []byte
	off int64
}

// newBody is the content of r, unchanged.
func newBody(r *record) body {
	return body{under: r.content, version: r.version, visible: r.size, size: r.size}
}

// has reports whether block i was written to since the last commit.
func (b *body) has(i int64) bool {
	_, ok := b.blocks[i]
	return ok || b.spooled[i]
}

// needsUnder reports whether block i has to be filled from under before n
// bytes are written to it from at on.
func (b *body) needsUnder(i, at int64, n int) bool {
	start := i * blockSize
	if b.has(i) || start >= b.visible {
		return false
	}
	end := min(b.visible-start, blockSize)
	return at > 0 || int64(n) < end
}

// read fills p, which ends at or before the end, with what blocks hold from
// off on, and returns what they do not cover.
func (b *body) read(p []byte, off int64) (gaps []gap, err error) {
	for len(p) > 0 {
		i, at := off/blockSize, off%blockSize
		n := min(int64(len(p)), blockSize-at)
		part := p[:n]
		switch block, ok := b.blocks[i]; {
		case ok:
			clear(part[copy(part, block[min(at, int64(len(block))):]):])
		case b.spooled[i]:
			if err := readFull(b.spool, part, off); err != nil {
				return nil, err
			}
		case off >= b.visible:
			clear(part)
		default:
			in := min(n, b.visible-off)
			clear(part[in:])
			gaps = append(gaps, gap{part[:in], off})
		}
		p, off = p[n:], off+n
	}
	return gaps, nil
}

// readFull is ReadAt with zeros behind the file's end.
func readFull(f *os.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	clear(p[n:])
	if err != nil && !errors.Is(err, io.EOF) {
		return syscall.EIO
	}
	return nil
}

// write puts p into block i from at on, and returns by how many bytes the
// blocks in memory grew.
func (b *body) write(i, at int64, p []byte) (grown int, err error) {
	if b.spooled[i] {
		if _, err := b.spool.WriteAt(p, i*blockSize+at); err != nil {
			return 0, spoolError(err)
		}
		b.size = max(b.size, i*blockSize+at+int64(len(p)))
		return 0, nil
	}
	if b.blocks == nil {
		b.blocks = map[int64][]byte{}
	}
	block, end := b.blocks[i], int(at)+len(p)
	before := cap(block)
	if len(block) < end {
		if cap(block) < end {
			grown := make([]byte, len(block), min(max(2*cap(block), end), blockSize))
			copy(grown, block)
			block = grown
		}
		old := len(block)
		block = block[:end]
		clear(block[old:])
	}
	copy(block[at:], p)
	b.blocks[i] = block
	b.size = max(b.size, i*blockSize+int64(end))
	return cap(block) - before, nil
}

// truncate sets the size, and returns by how many bytes the blocks in memory
// shrank.
func (b *body) truncate(size int64) (shrunk int, err error) {
	if size < b.size {
		if shrunk, err = b.cut(size); err != nil {
			return shrunk, err
		}
	}
	b.size, b.visible = size, min(b.visible, size)
	return shrunk, nil
}

// cut drops what blocks hold from size on, and shortens the one that size is in:
// what grows there again is zeros.
func (b *body) cut(size int64) (shrunk int, err error) {
	last, at := size/blockSize, size%blockSize
	if b.spooled[last] && at > 0 {
		if _, err := b.spool.WriteAt(zeros[:blockSize-at], size); err != nil {
			return 0, spoolError(err)
		}
	}
	for i, block := range b.blocks {
		switch {
		case i > last || i == last && at == 0:
			shrunk += cap(block)
			delete(b.blocks, i)
		case i == last:
			b.blocks[i] = block[:min(int64(len(block)), at)]
		}
	}
	for i := range b.spooled {
		if i > last || i == last && at == 0 {
			delete(b.spooled, i)
		}
	}
	return shrunk, nil
}

// zero makes block i zeros, and returns by how many bytes the blocks in memory
// shrank.
func (b *body) zero(i int64) (shrunk int) {
	shrunk = cap(b.blocks[i])
	delete(b.spooled, i)
	if b.blocks == nil {
		b.blocks = map[int64][]byte{}
	}
	b.blocks[i] = nil
	return shrunk
}

// spill moves the blocks in memory to the spool in dir, and returns how many
// bytes they had.
func (b *body) spill(dir string) (freed int, err error) {
	if b.spool == nil {
		if b.spool, err = unlinkedFile(dir); err != nil {
			return 0, spoolError(err)
		}
		b.spooled = map[int64]bool{}
	}
	for i, block := range b.blocks {
		// The whole block, so that nothing older shows behind a short one.
		whole := zeros[:blockSize]
		if len(block) > 0 {
			whole = append(append(make([]byte, 0, blockSize), block...), zeros[:blockSize-len(block)]...)
		}
		if _, err := b.spool.WriteAt(whole, i*blockSize); err != nil {
			return freed, spoolError(err)
		}
		b.spooled[i] = true
		delete(b.blocks, i)
		freed += cap(block)
	}
	return freed, nil
}

// drop frees what b holds, and returns how many bytes of it were in memory.
func (b *body) drop() (freed int) {
	for _, block := range b.blocks {
		freed += cap(block)
	}
	if b.spool != nil {
		// Nothing depends on the file any more; it has no name.
		_ = b.spool.Close()
	}
	b.blocks, b.spooled, b.spool = nil, nil, nil
	return freed
}

// unlinkedFile makes a file in dir that is gone when it is closed.
func unlinkedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "wsfs-spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spoolError is what a failure of the spool means for the file.
func spoolError(err error) error {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return syscall.ENOSPC
		}
	}
	return syscall.EIO
}
