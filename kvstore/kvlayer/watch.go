package kvlayer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// watches are the callers that want to know what others change. Every other
// layer's commit is in the store's feed; what it touched is in its own record,
// so that no change is taken for another one.
type watches struct {
	mu sync.Mutex
	// byDir are the watches of each directory. Protected by mu.
	byDir map[uint64]map[*watch]struct{}
	// queue are changes to tell, nil if the feed was never started. Protected
	// by mu.
	queue []touch
	wake  chan struct{} // has room for one; nil until the feed is started; protected by mu
	ready chan struct{} // closed when the feed covers all that follows; protected by mu
}

// A watch is one call of Watch.
type watch struct{ fn func(child string) }

// anyChild is the name of a touch that may concern any child.
const anyChild = ""

// Watch implements overlay.Watcher: it tells what other layers commit, and
// where a conflict changed what this one had written. ENOTSUP if the store has
// no feed.
func (l *Layer) Watch(ctx context.Context, name overlay.Name, fn func(child string)) (stop func(), err error) {
	if err := name.Check("watch"); err != nil {
		return nil, err
	}
	store, ok := overlay.As[kvstore.Watcher](l.store)
	if !ok {
		return nil, overlay.PathError("watch", name, syscall.ENOTSUP)
	}
	if err := l.awaitFeed(ctx, store); err != nil {
		return nil, pathError("watch", name, err)
	}
	for {
		dir, err := l.watchedDir(ctx, name)
		if err != nil {
			return nil, pathError("watch", name, err)
		}
		stop := l.watches.add(dir, &watch{fn: fn})
		// Changes of what is name now are covered; it may have changed before.
		now, err := l.watchedDir(ctx, name)
		if err == nil && now == dir {
			return stop, nil
		}
		stop()
	}
}

// watchedDir returns the number of the directory name as the store has it now.
func (l *Layer) watchedDir(ctx context.Context, name overlay.Name) (uint64, error) {
	if err := l.reload(ctx); err != nil {
		return 0, err
	}
	return findDir(ctx, l, name)
}

// awaitFeed starts the feed with the first watch, and waits until it covers
// all that follows.
func (l *Layer) awaitFeed(ctx context.Context, store kvstore.Watcher) error {
	w := &l.watches
	w.mu.Lock()
	if w.ready == nil {
		w.ready, w.wake = make(chan struct{}), make(chan struct{}, 1)
		w.byDir = map[uint64]map[*watch]struct{}{}
		l.running.Go(func() { l.feed(l.background, store) })
		l.running.Go(func() { w.dispatch(l.background) })
	}
	ready := w.ready
	w.mu.Unlock()
	timer := time.NewTimer(l.opt.Timeout)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return syscall.EINTR
	case <-timer.C:
		return syscall.EIO
	}
}

// add has one be called for changes in the directory dir until stop is called.
func (w *watches) add(dir uint64, one *watch) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byDir[dir] == nil {
		w.byDir[dir] = map[*watch]struct{}{}
	}
	w.byDir[dir][one] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byDir[dir], one)
		if len(w.byDir[dir]) == 0 {
			delete(w.byDir, dir)
		}
	}
}

// feed follows the store's feed until ctx is done. When it breaks, changes may
// be missed: every watch is told that anything may have changed, and again
// when the feed is back.
func (l *Layer) feed(ctx context.Context, store kvstore.Watcher) {
	const minWait, maxWait = 100 * time.Millisecond, 5 * time.Second
	wait := minWait
	for {
		err := store.Watch(ctx, l.keys.prefix(kindCommit), func() {
			wait = minWait
			l.watches.feedReady()
		}, func(key kvstore.Key) { l.noticed(ctx, lastNumber(key)) })
		if ctx.Err() != nil {
			return
		}
		l.opt.Log.Warn("kvlayer: change feed broke", "ns", l.ns, "segment", l.opt.Segment, "err", err)
		l.watches.tellAll()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxWait)
	}
}

// feedReady lets go who waits for the feed. If it was ready before, there was
// a gap.
func (w *watches) feedReady() {
	w.mu.Lock()
	select {
	case <-w.ready:
		w.mu.Unlock()
		w.tellAll()
	default:
		close(w.ready)
		w.mu.Unlock()
	}
}

// noticed tells what commit n changed, unless it is this layer's own.
func (l *Layer) noticed(ctx context.Context, n uint64) {
	item, found, err := l.get(ctx, l.keys.commit(n))
	if err != nil || !found {
		l.watches.tellAll()
		return
	}
	info, err := decodeCommitInfo(item.Value)
	if err != nil {
		_ = l.corrupt("commit", item.Key) // reports it
		l.watches.tellAll()
		return
	}
	if info.owner != l.opt.Owner {
		l.watches.put(info.touched...)
	}
}

// tell reports that the child name of dir may have changed.
func (w *watches) tell(dir uint64, name string) {
	w.put(touch{link: link{dir: dir, name: name}})
}

// tellAll reports that anything may have changed.
func (w *watches) tellAll() {
	w.mu.Lock()
	dirs := slices.Collect(maps.Keys(w.byDir))
	w.mu.Unlock()
	for _, dir := range dirs {
		w.tell(dir, anyChild)
	}
}

// put queues changes. The callers of fn have no lock, so it is not called here.
func (w *watches) put(touched ...touch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake == nil {
		return
	}
	w.queue = append(w.queue, touched...)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// dispatch calls the watches of what is queued, until ctx is done.
func (w *watches) dispatch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, t := range queue {
			w.call(t.dir, t.name)
			if t.self != 0 {
				w.call(t.self, anyChild)
			}
		}
	}
}

// call calls the watches of dir, without a lock: they may stop themselves.
func (w *watches) call(dir uint64, name string) {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.byDir[dir]))
	w.mu.Unlock()
	for _, one := range all {
		one.fn(name)
	}
}
