package kvlayer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// Sweep removes what nobody needs any more: history beyond Options.History
// that neither a pin nor an open file of a living layer needs, whiteouts of
// removed directories, and chunks that no file refers to. It runs by itself
// every Options.SweepEvery. It may be cut short at any point.
func (l *Layer) Sweep(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.sweepHistory, l.sweepNames, l.sweepChunks} {
		if err := step(ctx); err != nil {
			return pathError("sweep", overlay.Root, errnoOf(err))
		}
	}
	return nil
}

// maxDeletes is how many keys a batch of a sweep removes.
const maxDeletes = 1000

// deleteAll removes keys, in any order and as many batches as it takes.
func (l *Layer) deleteAll(ctx context.Context, keys []kvstore.Key) error {
	for part := range slices.Chunk(keys, maxDeletes) {
		b := &kvstore.Batch{}
		for _, k := range part {
			b.Delete(k)
		}
		if err := l.apply(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// sweepHistory raises the floor, and removes what is below it. First the floor:
// from then on AsOf refuses what the rest takes away.
func (l *Layer) sweepHistory(ctx context.Context) error {
	floor, err := l.newFloor(ctx)
	if err != nil {
		return err
	}
	err = l.update(ctx, func(t *tx) error {
		floor = max(floor, t.seg.floor)
		t.quiet = floor > t.seg.floor
		t.seg.floor = floor
		return nil
	})
	if err != nil {
		return err
	}
	// Pins are read after the floor was raised: a later Pin checks it.
	pins, err := l.pins(ctx)
	if err != nil {
		return err
	}
	needed, dead, err := l.owners(ctx)
	if err != nil {
		return err
	}
	old, err := l.oldUndo(ctx, floor, append(needed, pins...))
	if err != nil {
		return err
	}
	lines, err := l.oldLines(ctx, floor, pins)
	if err != nil {
		return err
	}
	return l.deleteAll(ctx, slices.Concat(dead, old, lines))
}

// newFloor returns the oldest commit that Options.History keeps. What was
// replaced less than a lease ago is kept in any case: a layer that has it open
// may not have said so yet.
func (l *Layer) newFloor(ctx context.Context) (uint64, error) {
	if err := l.reload(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	newest := l.cache.head.commit
	l.mu.Unlock()
	floor := newest - min(newest, l.opt.History.Commits)
	horizon := l.opt.Now().Add(-max(l.opt.History.Age, l.opt.Lease))
	err := l.scan(ctx, l.keys.prefix(kindCommit), func(item kvstore.Item) (bool, error) {
		n := lastNumber(item.Key)
		c, err := decodeCommitInfo(item.Value)
		if err != nil {
			return false, l.corrupt("commit", item.Key)
		}
		if n >= floor {
			return false, nil
		}
		if c.when.Before(horizon) {
			return true, nil
		}
		// n is young: the state before it, too, was there then.
		floor = n - 1
		return false, nil
	})
	return floor, err
}

// oldUndo returns the keys of undo records that only states below floor need,
// and none of the states in needed. An undo record of commit n says what was
// there from the one before it on up to n-1.
func (l *Layer) oldUndo(ctx context.Context, floor uint64, needed []uint64) (old []kvstore.Key, err error) {
	slices.Sort(needed)
	var newer kvstore.Key // an old record, until the start of its time is known
	var prefix kvstore.Key
	var end uint64
	settle := func(start uint64) {
		i, _ := slices.BinarySearch(needed, start)
		if newer != "" && (i == len(needed) || needed[i] >= end) {
			old = append(old, newer)
		}
		newer = ""
	}
	err = l.scan(ctx, l.keys.prefix(kindUndo), func(item kvstore.Item) (bool, error) {
		p, n, ok := splitBefore(item.Key)
		if !ok {
			return false, l.corrupt("history", item.Key)
		}
		if p == prefix {
			settle(n)
		} else {
			settle(0)
		}
		prefix = p
		if n <= floor {
			newer, end = item.Key, n
		}
		return true, nil
	})
	settle(0)
	return old, err
}

// oldLines returns the keys of commits and log lines below floor that are not
// pinned. The newest line of a name that is not gone stays.
func (l *Layer) oldLines(ctx context.Context, floor uint64, pins []uint64) (old []kvstore.Key, err error) {
	err = l.scan(ctx, l.keys.prefix(kindCommit), func(item kvstore.Item) (bool, error) {
		n := lastNumber(item.Key)
		if n < floor && !slices.Contains(pins, n) {
			old = append(old, item.Key)
		}
		return n < floor, nil
	})
	if err != nil {
		return nil, err
	}
	var last kvstore.Key
	err = l.scan(ctx, l.keys.prefix(kindLog), func(item kvstore.Item) (bool, error) {
		name, n, _ := splitBefore(item.Key)
		newest := name != last
		last = name
		if n >= floor || slices.Contains(pins, n) {
			return true, nil
		}
		v, err := decodeVersion(n, item.Value)
		if err != nil {
			return false, l.corrupt("log", item.Key)
		}
		if !newest || v.Op == OpRemove {
			old = append(old, item.Key)
		}
		return true, nil
	})
	return old, err
}

// sweepNames removes the entries of directories that are gone for good: they
// were whiteouts when it went.
func (l *Layer) sweepNames(ctx context.Context) error {
	// Entries first: a directory that is made meanwhile has a record when the
	// records are read.
	byDir := map[uint64][]kvstore.Key{}
	prefix := l.keys.prefix(kindEntry)
	err := l.scan(ctx, prefix, func(item kvstore.Item) (bool, error) {
		dir := lastNumber(item.Key[:min(len(item.Key), len(prefix)+8)])
		byDir[dir] = append(byDir[dir], item.Key)
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, kind := range []kvstore.Key{l.keys.prefix(kindRecord), l.keys.prefix(kindUndo, kindRecord)} {
		err := l.scan(ctx, kind, func(item kvstore.Item) (bool, error) {
			delete(byDir, lastNumber(item.Key[:min(len(item.Key), len(kind)+8)]))
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return l.deleteAll(ctx, slices.Concat(slices.Collect(maps.Values(byDir))...))
}

// chunkTries is how often chunks are looked for again because there was a
// commit meanwhile. At the last one this layer's commits wait.
const chunkTries = 4

// sweepChunks removes the chunks that no record refers to, now or in history.
// It does so only if there was no commit since it began to look, and says so in
// the head: who has uploaded chunks and not committed yet does it again.
func (l *Layer) sweepChunks(ctx context.Context) error {
	for try := range chunkTries {
		err := l.trySweepChunks(ctx, try == chunkTries-1)
		if !errors.Is(err, errConflict) {
			return err
		}
		time.Sleep(time.Millisecond << try)
	}
	l.opt.Log.Debug("kvlayer: chunks not swept: others commit all the time", "ns", l.ns, "segment", l.opt.Segment)
	return nil
}

// trySweepChunks is sweepChunks, once: errConflict if there was a commit.
func (l *Layer) trySweepChunks(ctx context.Context, exclusive bool) error {
	if exclusive {
		l.commit.Lock()
		defer l.commit.Unlock()
	}
	item, found, err := l.get(ctx, l.keys.head)
	if err != nil || !found {
		return err
	}
	dead, err := l.deadChunks(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(dead, maxDeletes/2) {
		if item, err = l.deleteChunks(ctx, item, part); err != nil {
			return err
		}
	}
	return nil
}

// deadChunks returns the chunks that nothing refers to.
func (l *Layer) deadChunks(ctx context.Context) ([]digest, error) {
	dead := map[digest]struct{}{}
	prefix := l.keys.prefix(kindIndex)
	err := l.scan(ctx, prefix, func(item kvstore.Item) (bool, error) {
		var d digest
		if copy(d[:], item.Key[len(prefix):]) != len(d) {
			return false, l.corrupt("chunk index", item.Key)
		}
		dead[d] = struct{}{}
		return true, nil
	})
	if err != nil || len(dead) == 0 {
		return nil, err
	}
	for _, kind := range []kvstore.Key{l.keys.prefix(kindRecord), l.keys.prefix(kindUndo, kindRecord)} {
		err := l.scan(ctx, kind, func(item kvstore.Item) (bool, error) {
			r, err := decodeRecord(0, item.Value)
			if err != nil {
				return false, l.corrupt("record", item.Key)
			}
			for _, d := range r.chunks {
				delete(dead, d)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Keys(dead)), nil
}

// deleteChunks removes chunks if the head is still old, and returns the head
// that it leaves. errConflict if it is not.
func (l *Layer) deleteChunks(ctx context.Context, old kvstore.Item, chunks []digest) (kvstore.Item, error) {
	h, err := l.decodeHead(old, true)
	if err != nil {
		return old, err
	}
	h.seg(l.opt.Segment).sweeps++
	value := h.encode()
	b := &kvstore.Batch{}
	b.Check(l.keys.head, old.Version)
	b.Put(l.keys.head, value)
	for _, d := range chunks {
		b.Delete(l.keys.index(d))
		b.Delete(l.keys.chunk(d))
	}
	if err := l.apply(ctx, b); err != nil {
		return old, err
	}
	item, _, err := l.get(ctx, l.keys.head)
	if err == nil && string(item.Value) != string(value) {
		err = errConflict
	}
	return item, err
}
