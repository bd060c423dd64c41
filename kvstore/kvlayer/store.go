package kvlayer

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// Inside this package an error is a syscall.Errno about the file, or one of
// these two. The store's own errors end here: they are logged, and what
// remains is what they mean for the file.
var (
	// errConflict: somebody else committed; read again and retry.
	errConflict = errors.New("kvlayer: somebody else committed")
	// errUnknown: the store did not say whether the batch was written.
	errUnknown = errors.New("kvlayer: outcome unknown")
)

// downTime is how long a store that did not answer is not asked again, so that
// each of many calls does not wait for its own timeout.
const downTime = time.Second

// pathError turns an error of this package into one about name.
func pathError(op string, name overlay.Name, err error) error {
	if err == nil {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	return overlay.PathError(op, name, errno)
}

// get returns the newest item of key; found is false if there is none.
func (l *Layer) get(ctx context.Context, key kvstore.Key) (item kvstore.Item, found bool, err error) {
	if err := l.answers(); err != nil {
		return kvstore.Item{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	item, err = l.store.Get(ctx, key)
	switch {
	case err == nil:
		return item, true, nil
	case errors.Is(err, kvstore.ErrNotFound):
		return kvstore.Item{}, false, nil
	}
	return kvstore.Item{}, false, l.failed(ctx, "get", err)
}

// scan calls fn for each item under prefix, in ascending order. It ends
// without an error at the first false. The time is bounded per item.
func (l *Layer) scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) (bool, error)) error {
	if err := l.answers(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(l.opt.Timeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()

	var inner error // of fn, which is ours and not the store's
	errStop := errors.New("stop")
	err := l.store.Scan(ctx, prefix, func(item kvstore.Item) error {
		timer.Reset(l.opt.Timeout)
		more, err := fn(item)
		if inner = err; err != nil || !more {
			return errStop
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errStop):
		return inner
	}
	return l.failed(ctx, "scan", err)
}

// apply writes b. errConflict: nothing was written; errUnknown: perhaps.
func (l *Layer) apply(ctx context.Context, b *kvstore.Batch) error {
	if err := l.answers(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	err := l.store.Apply(ctx, b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kvstore.ErrConflict):
		return errConflict
	}
	if err := l.failed(ctx, "apply", err); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
		return err
	}
	return errUnknown
}

// failed logs err and returns what it means for the file.
func (l *Layer) failed(ctx context.Context, op string, err error) error {
	switch {
	case errors.Is(err, kvstore.ErrFull):
		l.opt.Log.Error("kvlayer: store is full", "op", op, "ns", l.ns, "segment", l.opt.Segment, "err", err)
		return syscall.ENOSPC
	case errors.Is(err, kvstore.ErrTooLarge):
		l.opt.Log.Error("kvlayer: too large for the store", "op", op, "ns", l.ns, "segment", l.opt.Segment, "err", err)
		return syscall.EFBIG
	case errors.Is(context.Cause(ctx), context.Canceled):
		return syscall.EINTR
	case errors.Is(err, kvstore.ErrUnavailable), ctx.Err() != nil:
		l.down.Store(time.Now().Add(downTime).UnixNano())
	}
	l.opt.Log.Error("kvlayer: store failed", "op", op, "ns", l.ns, "segment", l.opt.Segment, "err", err)
	return syscall.EIO
}

// answers returns EIO while the store counts as not answering.
func (l *Layer) answers() error {
	if down := l.down.Load(); down != 0 && time.Now().UnixNano() < down {
		return syscall.EIO
	}
	return nil
}
