package kvlayer

import (
	"context"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A file is a regular file that is open in this layer. All its handles share
// it, so they see each other's writes at once; the store, and with it other
// layers, sees them when one of the handles is flushed.
//
// Locks, in the order they are taken: write, Layer.commit, Layer.mu, mu.
type file struct {
	l    *Layer
	ino  uint64
	name overlay.Name // when it was opened, for messages

	// write is shared by writes, and held exclusively by whatever needs the
	// content to stand still: a commit, a truncation, a newer version.
	write sync.RWMutex
	// standIn: a file that is in no table, made to hold what a conflict is
	// resolved to. Its bytes are those of another file, which counts them.
	// Immutable.
	standIn bool
	// pending are commits that the store may have taken without saying so.
	// Protected by write.
	pending []attempt

	// mu protects what follows.
	mu sync.Mutex
	// base is the version the body is built on. Its links are kept up to date
	// as long as only this layer changes them.
	base *record
	body body
	// dirty: the body has changed since base. mtime and ctime are of the
	// newest change.
	dirty        bool
	mtime, ctime time.Time
	// appendOnly: all that changed is that bytes were appended, from tail on,
	// by handles that append. It counts while dirty.
	appendOnly bool
	tail       int64
	counted    int64 // what of Layer.grown is this file's

	// refs counts handles. Protected by Layer.mu.
	refs int
	// orphan is the record of a file that has lost its last name, with what
	// was changed since; nil for others. Protected by Layer.mu.
	orphan *record
	// detached: somebody else removed the file, and what is written goes to
	// what took its place, or beside it. Protected by write.
	detached bool
}

// newFile is the file r, unchanged, without a handle.
func (l *Layer) newFile(r *record, name overlay.Name) *file {
	return &file{l: l, ino: r.ino, name: name, base: r, body: newBody(r)}
}

// newStandIn is a file to write what is to follow r to.
func (l *Layer) newStandIn(r *record, name overlay.Name) *file {
	f := l.newFile(r, name)
	f.standIn = true
	return f
}

// readAt reads as io.ReaderAt does.
func (f *file) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	f.mu.Lock()
	n := int(max(0, min(int64(len(p)), f.body.size-off)))
	gaps, err := f.body.read(p[:n], off)
	under := f.body.under
	f.mu.Unlock()
	for _, g := range gaps {
		if err != nil {
			break
		}
		err = f.l.readContent(ctx, under, g.p, g.off)
	}
	switch {
	case err != nil:
		return 0, err
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// writeAt writes p at off. It returns how much of p was written; that part
// stays whatever the error.
//
// Preconditions: f.write is held, shared or not.
func (f *file) writeAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, syscall.EINVAL
	case len(p) == 0:
		return 0, nil
	case off+int64(len(p)) > MaxFile || off > MaxFile:
		return 0, syscall.EFBIG
	}
	if err := f.checkQuota(ctx, off+int64(len(p))); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		i, at := off/blockSize, off%blockSize
		part := p[:min(int64(len(p)), blockSize-at)]
		if err := f.writeBlock(ctx, i, at, part); err != nil {
			return n, err
		}
		n, p, off = n+len(part), p[len(part):], off+int64(len(part))
	}
	return n, f.spillIfFull()
}

// writeBlock writes p into block i from at on. What the block lacks comes from
// what is committed, read without f.mu: a store may be slow, and f.write keeps
// the version from changing.
func (f *file) writeBlock(ctx context.Context, i, at int64, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.body.needsUnder(i, at, len(p)) {
		block := make([]byte, min(blockSize, f.body.visible-i*blockSize))
		under := f.body.under
		f.mu.Unlock()
		err := f.l.readContent(ctx, under, block, i*blockSize)
		f.mu.Lock()
		if err != nil {
			return err
		}
		// Another write may have filled the block meanwhile.
		if !f.body.has(i) {
			if err := f.writeLocked(i, 0, block); err != nil {
				return err
			}
		}
	}
	if err := f.writeLocked(i, at, p); err != nil {
		return err
	}
	f.changedLocked()
	return nil
}

// writeLocked writes into a block.
//
// Preconditions: f.mu is held.
func (f *file) writeLocked(i, at int64, p []byte) error {
	grown, err := f.body.write(i, at, p)
	f.l.dirty.Add(int64(grown))
	return err
}

// changedLocked notes a change of content.
//
// Preconditions: f.mu is held.
func (f *file) changedLocked() {
	f.dirty = true
	f.mtime = f.l.opt.Now()
	f.ctime = f.mtime
	f.countLocked()
}

// countLocked keeps the layer's sum of uncommitted growth.
//
// Preconditions: f.mu is held.
func (f *file) countLocked() {
	growth := max(0, f.body.size-f.base.size)
	if !f.dirty || f.standIn {
		growth = 0
	}
	f.l.grown.Add(growth - f.counted)
	f.counted = growth
}

// checkQuota returns EDQUOT if the namespace has no room for the file to grow
// to size, so that the write fails and not the close. What others free is seen
// at once, what they take at the latest by the commit.
func (f *file) checkQuota(ctx context.Context, size int64) error {
	if f.l.opt.Quota <= 0 || f.standIn || f.fits(size) {
		return nil
	}
	if err := f.l.fresh(ctx); err != nil {
		return err
	}
	if !f.fits(size) {
		return syscall.EDQUOT
	}
	return nil
}

// fits reports whether the file may grow to size by what is known of the
// namespace: what is committed, and what this layer's other files will add.
func (f *file) fits(size int64) bool {
	f.l.mu.Lock()
	used := f.l.cache.head.bytes
	f.l.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	others := f.l.grown.Load() - f.counted
	return size <= f.body.size || used+others+size-f.base.size <= f.l.opt.Quota
}

// spillIfFull moves the file's blocks to disk if the layer holds too many.
func (f *file) spillIfFull() error {
	if f.l.dirty.Load() <= f.l.opt.Memory {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	freed, err := f.body.spill(f.l.opt.Spool)
	f.l.dirty.Add(-int64(freed))
	return err
}

// append writes p at the end.
func (f *file) append(ctx context.Context, p []byte) (int, error) {
	f.write.Lock()
	defer f.write.Unlock()
	f.mu.Lock()
	size := f.body.size
	if !f.dirty {
		f.appendOnly, f.tail = true, size
	}
	f.mu.Unlock()
	return f.writeAt(ctx, p, size)
}

// overwrite writes p at off.
func (f *file) overwrite(ctx context.Context, p []byte, off int64) (int, error) {
	f.write.RLock()
	defer f.write.RUnlock()
	if len(p) > 0 {
		f.mu.Lock()
		f.appendOnly = false
		f.mu.Unlock()
	}
	return f.writeAt(ctx, p, off)
}

// truncate sets the size.
func (f *file) truncate(ctx context.Context, size int64) error {
	switch {
	case size < 0:
		return syscall.EINVAL
	case size > MaxFile:
		return syscall.EFBIG
	}
	if err := f.checkQuota(ctx, size); err != nil {
		return err
	}
	f.write.Lock()
	defer f.write.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	shrunk, err := f.body.truncate(size)
	f.l.dirty.Add(-int64(shrunk))
	if err != nil {
		return err
	}
	f.appendOnly = false
	f.changedLocked()
	return nil
}

// replaceBodyLocked has the file go on with b on top of base.
//
// Preconditions: f.write is held exclusively, and f.mu.
func (f *file) replaceBodyLocked(base *record, b body, dirty bool) {
	f.l.dirty.Add(-int64(f.body.drop()))
	f.base, f.body, f.dirty = base, b, dirty
	f.countLocked()
}

// catchUp has a file without changes of its own go on with the version r.
func (f *file) catchUp(r *record) {
	f.mu.Lock()
	stale := !f.dirty && r.version > f.base.version
	f.mu.Unlock()
	// Somebody writes: the newer version counts when that is committed.
	if !stale || !f.write.TryLock() {
		return
	}
	defer f.write.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dirty && r.version > f.base.version {
		f.replaceBodyLocked(r, newBody(r), false)
	}
}

// overlayAttr puts into a what is not committed.
func (f *file) overlayAttr(a *overlay.Attr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.dirty {
		return
	}
	a.Size, a.Blocks = f.body.size, (f.body.size+511)/512
	a.Mtime, a.Version = f.mtime, f.base.version
	if f.ctime.After(a.Ctime) {
		a.Ctime = f.ctime
	}
}

// setMtime has the next commit keep a time that was set meanwhile.
func (f *file) setMtime(mtime time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mtime = mtime
}

// discard frees what the file holds.
func (f *file) discard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = false
	f.l.dirty.Add(-int64(f.body.drop()))
	f.countLocked()
}
