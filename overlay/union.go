package overlay

import (
	"context"
	"errors"
	"hash/maphash"
	iofs "io/fs"
	"syscall"
)

// An Overlay is a stack of layers seen as one tree: the upper, and below it
// the lowers in order. All changes go to the upper. It is a Layer and has
// every ability of layers that its own layers have; what they lack fails as on
// a file system without it.
//
// A call sees the tree as it is at one moment between its begin and its end.
type Overlay struct {
	stack *stack

	locks  locks
	copies copies
}

// The abilities of an Overlay.
var (
	_ Layer       = (*Overlay)(nil)
	_ Linker      = (*Overlay)(nil)
	_ XattrSetter = (*Overlay)(nil)
	_ Noder       = (*Overlay)(nil)
	_ Tmpfiler    = (*Overlay)(nil)
	_ Statfser    = (*Overlay)(nil)
	_ Watcher     = (*Overlay)(nil)
	_ Segmenter   = (*Overlay)(nil)
	_ Syncer      = (*Overlay)(nil)
	_ Recoverer   = (*Overlay)(nil)
	_ Pinner      = (*Overlay)(nil)
	_ Placer      = (*Overlay)(nil)
)

// New returns the tree of upper over lowers, the topmost first. Without an
// upper (nil) it is read-only: every change fails with EROFS. It reads the
// roots of all layers; a layer whose root cannot be read is taken for one on a
// device of its own.
func New(upper Upper, lowers ...Reader) *Overlay {
	o := &Overlay{}
	o.locks.seed = maphash.MakeSeed()
	o.stack = newStack(o, upper, lowers)
	return o
}

// about returns err as the error of op on name: layers know a file by another
// name. What is not an errno is kept as it is, context.Canceled above all.
func about(op string, name Name, err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return PathError(op, name, errno)
	}
	if pe, ok := errors.AsType[*iofs.PathError](err); ok {
		err = pe.Err
	}
	return &iofs.PathError{Op: op, Path: string(name), Err: err}
}

// absent reports whether err says that a layer has no such file: it, or the
// directory it would be in, does not exist there.
func absent(err error) bool {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno == syscall.ENOENT || errno == syscall.ENOTDIR
}

// isErrno reports whether errno is inside err. errors.Is would also find
// ENOTEMPTY to be fs.ErrExist.
func isErrno(err error, errno syscall.Errno) bool {
	got, ok := errors.AsType[syscall.Errno](err)
	return ok && got == errno
}

// Segment implements Segmenter: the upper's segments, or one.
func (o *Overlay) Segment(name Name) int {
	if o.stack.segments == nil {
		return 0
	}
	return o.stack.segments.Segment(name)
}

// Pinned implements Pinner.
func (o *Overlay) Pinned(name Name) bool {
	return o.stack.pins != nil && o.stack.pins.Pinned(name)
}

// Statfs implements Statfser: the space of the upper, where new files go.
// Without an upper it is that of the topmost lower that knows it.
func (o *Overlay) Statfs(ctx context.Context) (Statfs, error) {
	for _, l := range o.stack.layers {
		if s, ok := As[Statfser](l.Reader); ok {
			return s.Statfs(ctx)
		}
	}
	return Statfs{}, PathError("statfs", Root, syscall.ENOSYS)
}

// SyncAll implements Syncer: all that the upper holds.
func (o *Overlay) SyncAll(ctx context.Context) error {
	if s, ok := As[Syncer](any(o.stack.upper)); ok {
		return s.SyncAll(ctx)
	}
	return nil
}

// Recover implements Recoverer for the upper. Origins that are layers of the
// stack are found here; open, which may be nil, is asked for others.
func (o *Overlay) Recover(ctx context.Context, open Origins) ([]Name, error) {
	r, ok := As[Recoverer](any(o.stack.upper))
	if !ok {
		return nil, nil
	}
	return r.Recover(ctx, func(ctx context.Context, layer string, name Name) (Handle, error) {
		for _, l := range o.stack.layers {
			if l.id == layer && l.id != "" {
				return l.Open(ctx, name)
			}
		}
		if open == nil {
			return nil, PathError("open", name, syscall.ENOENT)
		}
		return open(ctx, layer, name)
	})
}
