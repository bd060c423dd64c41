package kvlayer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// rootIno is the number of the root directory.
const rootIno = 1

// A Layer is a segment of a namespace as an overlay.Upper. See the package
// comment for what it promises. Use New.
type Layer struct {
	store kvstore.Store // immutable, as are the next three
	ns    string
	keys  keys
	opt   Options

	// commit is held by the one change that is under way, from what it reads
	// to the end of its batch.
	commit sync.Mutex

	// mu protects the next three, and fields of files as noted there. It is
	// never held across a call of the store.
	mu      sync.Mutex
	cache   cache
	open    map[uint64]*file   // files with a name, by inode number
	orphans map[*file]struct{} // open files that have lost their last name

	chunks  chunkCache
	watches watches
	down    atomic.Int64 // the time (UnixNano) until which the store counts as not answering
	dirty   atomic.Int64 // bytes of uncommitted content in memory
	grown   atomic.Int64 // bytes by which uncommitted content is larger than committed

	announced atomic.Bool // the store holds an owner's record of this layer

	background context.Context    // of what runs in the background
	stop       context.CancelFunc // ends it
	running    sync.WaitGroup
}

var (
	_ overlay.Upper       = (*Layer)(nil)
	_ overlay.Linker      = (*Layer)(nil)
	_ overlay.XattrSetter = (*Layer)(nil)
	_ overlay.Noder       = (*Layer)(nil)
	_ overlay.Tmpfiler    = (*Layer)(nil)
	_ overlay.Statfser    = (*Layer)(nil)
	_ overlay.Watcher     = (*Layer)(nil)
	_ overlay.Identified  = (*Layer)(nil)
	_ overlay.Syncer      = (*Layer)(nil)
	_ overlay.Marker      = (*Layer)(nil)
	_ overlay.Redirecter  = (*Layer)(nil)
	_ overlay.Checker     = (*Layer)(nil)
)

// New opens the segment opt.Segment of the namespace ns, and makes it if the
// store does not hold it yet. The store stays the caller's, who closes it
// after the layer.
func New(ctx context.Context, store kvstore.Store, ns string, opt Options) (*Layer, error) {
	k, err := newKeys(ns, opt.Segment)
	if err != nil {
		return nil, err
	}
	opt = opt.withDefaults()
	if err := os.MkdirAll(opt.Spool, 0o700); err != nil {
		return nil, fmt.Errorf("kvlayer: spool: %w", err)
	}
	l := &Layer{store: store, ns: ns, keys: k, opt: opt, open: map[uint64]*file{}, orphans: map[*file]struct{}{}}
	l.cache.resetLocked(head{}, 0)
	l.cache.known = false
	if err := l.probe(ctx); err != nil {
		return nil, fmt.Errorf("kvlayer: open namespace %q, segment %q: %v", ns, opt.Segment, err)
	}
	if err := l.makeRoot(ctx); err != nil {
		return nil, fmt.Errorf("kvlayer: open namespace %q, segment %q: %w", ns, opt.Segment, err)
	}
	l.background, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.maintain(l.background) })
	return l, nil
}

// probe reads from the store, so that New can say what is wrong with it: later
// calls have an errno only. What it returns is not to be wrapped.
func (l *Layer) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	item, err := l.store.Get(ctx, l.keys.head)
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if _, err := decodeHead(item.Value); err != nil {
		return fmt.Errorf("%w: its head, %d bytes, is of another version of wsfs or damaged", err, len(item.Value))
	}
	return nil
}

// makeRoot makes the root directory unless there is one.
func (l *Layer) makeRoot(ctx context.Context) error {
	if err := l.reload(ctx); err != nil {
		return err
	}
	return l.update(ctx, func(t *tx) error {
		root, err := t.record(rootIno)
		if err != nil || root != nil {
			return err
		}
		if t.seg.ino != 0 {
			return l.corrupt("tree: no root directory", l.keys.record(rootIno))
		}
		p := l.opt.RootPerm
		t.create(t.newRecord(overlay.TypeDir, p.Mode&^p.Umask, p.UID, p.GID))
		return nil
	})
}

// LayerID returns Options.ID.
func (l *Layer) LayerID() string { return l.opt.ID }

// SyncAll commits every open file. A commit is as durable as the store is.
func (l *Layer) SyncAll(ctx context.Context) error {
	var errs []error
	for _, f := range l.files() {
		if err := f.flush(ctx, commitFlush); err != nil {
			errs = append(errs, pathError("syncfs", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// Close commits what open files hold, and reports what could not be. Handles
// must not be used after it. The store stays open.
func (l *Layer) Close() error {
	var errs []error
	for _, f := range l.files() {
		if err := f.flush(context.Background(), commitRelease); err != nil {
			errs = append(errs, pathError("close", f.name, err))
		}
		f.discard()
	}
	l.stop()
	l.running.Wait()
	if err := l.leave(context.Background()); err != nil {
		errs = append(errs, pathError("close", overlay.Root, errnoOf(err)))
	}
	return errors.Join(errs...)
}

// files returns the open files, those without a name, too.
func (l *Layer) files() []*file {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*file, 0, len(l.open)+len(l.orphans))
	for _, f := range l.open {
		all = append(all, f)
	}
	for f := range l.orphans {
		all = append(all, f)
	}
	return all
}
