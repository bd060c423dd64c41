package kvlayer

import (
	"context"
	"errors"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// A commitMode says what asks for a commit.
type commitMode uint8

const (
	commitFlush   commitMode = iota
	commitRelease            // nobody is left to be told of a conflict: it becomes a sidecar
)

// An attempt is a commit of content of which the store did not say whether it
// was made.
type attempt struct {
	n, stamp uint64
	r        *record
}

// A changedError says that the file is not what it was when it was opened:
// there is a newer version, or somebody else removed it (now is nil).
type changedError struct{ now *record }

func (*changedError) Error() string { return "kvlayer: the file was changed by somebody else" }

// errOrphan: the file has no name any more, so there is nothing to commit to.
var errOrphan = errors.New("kvlayer: file without a name")

// flush commits the file's content, if it was changed, against the version it
// builds on, and resolves conflicts.
func (f *file) flush(ctx context.Context, mode commitMode) error {
	return f.flushWith(ctx, mode, overlay.SetAttr{})
}

// flushWith is flush, and changes attributes in the same commit. The size in
// set does not count.
func (f *file) flushWith(ctx context.Context, mode commitMode, set overlay.SetAttr) error {
	if !f.isDirty() {
		return nil
	}
	f.write.Lock()
	defer f.write.Unlock()
	replaced := false
	for f.isDirty() {
		if err := f.adoptPending(ctx); err != nil {
			return err
		}
		err := f.commitOnce(ctx, set)
		var changed *changedError
		switch {
		case err == nil:
		case errors.Is(err, errOrphan) && !f.detached:
			return nil
		case errors.Is(err, errOrphan):
			return f.deliver(ctx, mode)
		case errors.As(err, &changed):
			replaced = true
			if err := f.reconcile(ctx, changed.now, mode); err != nil {
				return err
			}
		default:
			return errnoOf(err)
		}
	}
	if replaced {
		f.tell()
	}
	return nil
}

// errnoOf turns errUnknown into what it means for the caller.
func errnoOf(err error) error {
	if errors.Is(err, errUnknown) {
		return syscall.EIO
	}
	return err
}

// isDirty reports whether there is something to commit.
func (f *file) isDirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirty
}

// layOut cuts the file's content, and reads only what has changed.
//
// Preconditions: f.write is held exclusively.
func (f *file) layOut(u *uploader) (content, error) {
	read := func(p []byte, off int64) error {
		n, err := f.readAt(u.ctx, p, off)
		if n == len(p) {
			return nil
		}
		return err
	}
	f.mu.Lock()
	size := f.body.size
	f.mu.Unlock()
	return u.layOut(size, read, f.unchanged)
}

// layOutOld is layOut for a commit that does not check that the version under
// what was written is still the newest.
//
// Preconditions: f.write is held exclusively.
func (f *file) layOutOld(u *uploader) (content, error) {
	u.doubts = true
	return f.layOut(u)
}

// unchanged returns the digest of chunk i if it is what was committed.
func (f *file) unchanged(i int64, shift uint8) (digest, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &f.body
	start := i << shift
	end := min(start+1<<shift, b.size)
	perChunk := int64(1) << (shift - smallShift)
	for n := i * perChunk; n < (i+1)*perChunk; n++ {
		if b.has(n) {
			return digest{}, false
		}
	}
	if start >= b.visible {
		return digest{}, true // a hole
	}
	same := b.under.shift == shift && end <= b.visible && end == min(start+1<<shift, b.under.size)
	if !same {
		return digest{}, false
	}
	return b.under.chunks[i], true
}

// commitOnce commits the content on top of base, and attributes: a changedError
// if base is not the newest version.
//
// Preconditions: f.write is held exclusively.
func (f *file) commitOnce(ctx context.Context, set overlay.SetAttr) error {
	if f.orphaned() != nil {
		return errOrphan
	}
	var last attempt
	err := f.l.putContent(ctx, f.layOut, func(t *tx, c content) error {
		now, err := t.record(f.ino)
		switch {
		case err != nil:
			return err
		case now == nil && f.orphaned() != nil:
			return errOrphan
		case now == nil || now.version != f.baseVersion():
			return &changedError{now}
		}
		r, err := t.edit(f.ino)
		if err != nil {
			return err
		}
		f.fill(t, r, c)
		if set.Valid != 0 {
			r.applyAttr(set, t.now)
		}
		last = attempt{n: t.n, r: r}
		t.done = append(t.done, func() { f.advance(r) })
		t.stamped = func(stamp uint64) { last.stamp = stamp }
		return nil
	})
	if errors.Is(err, errUnknown) {
		f.pending = append(f.pending, last)
	}
	return err
}

// baseVersion is the version that a commit has to find in the store.
func (f *file) baseVersion() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base.version
}

// fill makes r, a record in the making, the next version of the file. Content
// that is what it was makes no version.
func (f *file) fill(t *tx, r *record, c content) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.mtime = f.mtime
	if f.ctime.After(r.ctime) {
		r.ctime = f.ctime
	}
	t.touched(r)
	if c.size == r.size && c.digest() == r.digest() {
		return
	}
	r.content, r.version = c, t.n
	for _, at := range r.links {
		t.log(OpWrite, at, r)
	}
}

// advance has the file go on from r, which holds all that was written.
//
// Preconditions: f.write is held exclusively.
func (f *file) advance(r *record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replaceBodyLocked(r, newBody(r), false)
	f.pending = nil
}

// adoptPending looks whether a commit of unknown outcome was made: then the
// file builds on that one. A commit that is not there may still be under way,
// but not once another one is made.
//
// Preconditions: f.write is held exclusively.
func (f *file) adoptPending(ctx context.Context) error {
	for _, a := range f.pending {
		written, err := f.l.wrote(ctx, a.n, a.stamp)
		if err != nil {
			return err
		}
		f.mu.Lock()
		if written && a.r.version >= f.base.version {
			f.base, f.tail = a.r, a.r.size
		}
		f.mu.Unlock()
	}
	return nil
}
