package badgerkv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// tidyEvery is how often a store looks for values to reclaim.
const tidyEvery = time.Minute

// A tidier merges tables and so reclaims what was overwritten and deleted. It
// takes the place of badger's own compaction, which starts at any moment: one
// that runs while another program takes the last of the disk would kill the
// process (SIGBUS), so tables are merged only while much more is free than that
// takes.
type tidier struct {
	store *Store
	// mu is held while the tidier is at work. Lock order: see the package.
	mu sync.Mutex
	// merging is held while tables are merged. A leaf.
	merging sync.Mutex
	// garbage is how many bytes were overwritten or deleted since the last
	// merge, at least.
	garbage atomic.Int64
	// grown has a token while a table was written since the tidier looked.
	grown chan struct{}
	// stop ends run.
	stop context.CancelFunc
	done sync.WaitGroup
}

// start starts the tidier of s.
func (t *tidier) start(s *Store) {
	ctx, cancel := context.WithCancel(context.Background())
	t.store, t.grown, t.stop = s, make(chan struct{}, 1), cancel
	t.done.Go(func() { t.run(ctx) })
}

// end ends the tidier. A merge that runs is finished first.
func (t *tidier) end() {
	t.stop()
	t.done.Wait()
}

// tableWritten tells the tidier that there may be a new table.
func (t *tidier) tableWritten() {
	select {
	case t.grown <- struct{}{}:
	default: // it knows
	}
}

func (t *tidier) run(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		garbage := false
		select {
		case <-ctx.Done():
			return
		case <-t.grown:
		case <-tick.C:
			garbage = true
		}
		if err := t.tidy(ctx, garbage); err != nil && ctx.Err() == nil {
			t.store.opt.log().Warn("badgerkv: merge of tables failed", "store", t.store.dir, "err", err)
		}
	}
}

// tidy merges tables if that is due; with garbage set also for the sake of what
// was deleted, and then it writes what is in memory to a table first.
func (t *tidier) tidy(ctx context.Context, garbage bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := dueFor(t.store.db.Levels(), t.garbage.Load())
	if due.tables == 0 || !due.merge && !(garbage && due.reclaim) {
		return nil
	}
	if !due.merge {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	free, err := freeSpace(t.store.dir)
	if err != nil {
		return err
	}
	if free < 2*due.tables+t.store.opt.headroom() {
		t.store.opt.log().Debug("badgerkv: no room to merge tables", "store", t.store.dir, "free", free, "tables", due.tables)
		return nil
	}
	t.garbage.Store(0)
	t.store.db.SetDiscardTs(t.store.timeline.oldest())
	t.merging.Lock()
	defer t.merging.Unlock()
	return t.store.db.Flatten(1)
}

// backlog is how many bytes of new tables there may be before writers wait for
// a merge that runs.
const backlog = 6 * memtableSize

// hold keeps the committing goroutine waiting while tables are merged, if new
// ones come faster than that: else a store that is overwritten without a pause
// would grow. Where nothing is merged for lack of room it does not wait.
func (t *tidier) hold() {
	levels := t.store.db.Levels()
	if fresh := levels[0].Size; fresh < max(backlog, levels[len(levels)-1].Size/2) {
		return
	}
	t.merging.Lock()
	defer t.merging.Unlock()
}

// A duty is what a tidier has to do.
type duty struct {
	merge   bool  // there are too many or too large new tables
	reclaim bool  // much was overwritten or deleted
	tables  int64 // bytes of all tables
}

// dueFor decides. The cost of a merge is the size of all tables, so it waits
// until the new ones are a fair part of them.
func dueFor(levels []badger.LevelInfo, garbage int64) duty {
	var fresh, settled int64
	for _, l := range levels[1:] {
		settled += l.Size
	}
	fresh = levels[0].Size
	return duty{
		merge: fresh >= max(3*memtableSize, settled/8) ||
			levels[0].NumTables >= 16+int(settled/(2*memtableSize)),
		reclaim: garbage >= max(2*memtableSize, (fresh+settled)/2),
		tables:  fresh + settled,
	}
}

// flush has what is in memory written to a table. Badger does that only when
// its log is full, so the log is filled with values that nobody keeps.
func (t *tidier) flush(ctx context.Context) error {
	last := t.store.timeline.now()
	pad := make([]byte, maxPart)
	for n := 0; n <= memtableSize; n += len(pad) {
		if err := t.store.apply(ctx, padding(pad)); err != nil {
			return fmt.Errorf("flush: %v", err)
		}
	}
	if err := t.store.apply(ctx, padding(nil)); err != nil {
		return fmt.Errorf("flush: %v", err)
	}
	return t.flushed(ctx, last)
}

// flushed returns when commit is in a table.
func (t *tidier) flushed(ctx context.Context, commit uint64) error {
	for {
		for _, table := range t.store.db.Tables() {
			if table.MaxVersion >= commit {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// padding returns a request that sets a key of the store's own, or deletes it.
func padding(value []byte) *request {
	return &request{
		writes: []write{{key: padKey, value: value, del: value == nil}},
		size:   len(value) + opOverhead,
		done:   make(chan error, 1),
	}
}
