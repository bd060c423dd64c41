package kvlayer

import (
	"context"
	"math"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// An owner's record says that a layer lives, and which past state its open
// files still read from: files that were removed, or replaced by others.
type ownerInfo struct {
	alive  time.Time
	oldest uint64
}

// beatsPerLease is how often a layer says that it lives, so that a lost beat
// does not count.
const beatsPerLease = 4

// maintain does what has to be done from time to time, until ctx is done.
func (l *Layer) maintain(ctx context.Context) {
	beat := time.NewTicker(l.opt.Lease / beatsPerLease)
	defer beat.Stop()
	var sweep <-chan time.Time
	if l.opt.SweepEvery > 0 {
		ticker := time.NewTicker(l.opt.SweepEvery)
		defer ticker.Stop()
		sweep = ticker.C
	}
	for swept := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if err := l.beat(ctx); err != nil && ctx.Err() == nil {
				l.opt.Log.Warn("kvlayer: lease not renewed", "ns", l.ns, "segment", l.opt.Segment, "err", err)
			}
		case <-sweep:
			n, err := l.lastCommit(ctx)
			if err == nil && n != swept {
				swept, err = n, l.Sweep(ctx)
			}
			if err != nil && ctx.Err() == nil {
				l.opt.Log.Warn("kvlayer: not swept", "ns", l.ns, "segment", l.opt.Segment, "err", err)
			}
		}
	}
}

// lastCommit returns the newest commit of the segment.
func (l *Layer) lastCommit(ctx context.Context) (uint64, error) {
	if err := l.reload(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cache.head.seg(l.opt.Segment).last, nil
}

// beat says that the layer lives, if it has open files.
func (l *Layer) beat(ctx context.Context) error {
	oldest, any := l.oldest()
	if !any {
		return l.leave()
	}
	e := newEncoder(32)
	e.time(l.opt.Now())
	e.uint(oldest)
	b := &kvstore.Batch{}
	b.Put(l.ownerKey(), e.b)
	return l.apply(ctx, b)
}

func (l *Layer) ownerKey() kvstore.Key { return l.keys.prefix(kindOwner, []byte(l.opt.Owner)...) }

// oldest returns the oldest commit whose state an open file reads.
func (l *Layer) oldest() (n uint64, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = math.MaxUint64
	for f := range l.orphans {
		n = min(n, f.baseVersion())
	}
	for _, f := range l.open {
		n = min(n, f.baseVersion())
	}
	return n, len(l.orphans)+len(l.open) > 0
}

// leave says that the layer needs nothing any more.
func (l *Layer) leave() error {
	b := &kvstore.Batch{}
	b.Delete(l.ownerKey())
	return pathError("close", overlay.Root, errnoOf(l.apply(context.Background(), b)))
}

// owners returns the commits that living layers need, and the keys of dead ones.
func (l *Layer) owners(ctx context.Context) (needed []uint64, dead []kvstore.Key, err error) {
	deadline := l.opt.Now().Add(-l.opt.Lease)
	err = l.scan(ctx, l.keys.prefix(kindOwner), func(item kvstore.Item) (bool, error) {
		d := newDecoder(item.Value)
		o := ownerInfo{alive: d.time(), oldest: d.uint()}
		switch {
		case d.end() != nil:
			return false, l.corrupt("owner", item.Key)
		case o.alive.Before(deadline):
			dead = append(dead, item.Key)
		default:
			needed = append(needed, o.oldest)
		}
		return true, nil
	})
	return needed, dead, err
}
