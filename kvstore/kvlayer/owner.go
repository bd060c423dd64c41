package kvlayer

import (
	"context"
	"slices"
	"time"

	"github.com/wsfs/wsfs/kvstore"
)

// An owner's record says that a layer lives, and which past states its open
// files read from: files that were removed, or replaced by others.
type ownerInfo struct {
	alive time.Time
	reads []uint64 // commits, ascending
}

func (o ownerInfo) encode() []byte {
	e := newEncoder(16 + 4*len(o.reads))
	e.time(o.alive)
	e.uint(uint64(len(o.reads)))
	for _, n := range o.reads {
		e.uint(n)
	}
	return e.b
}

func decodeOwner(b []byte) (ownerInfo, error) {
	d := newDecoder(b)
	o := ownerInfo{alive: d.time()}
	for range d.count(1) {
		o.reads = append(o.reads, d.uint())
	}
	return o, d.end()
}

// beatsPerLease is how often a layer says that it lives, so that a lost beat
// does not count.
const beatsPerLease = 4

// firstSweep is how long after New it is first swept: workspaces that are
// mounted for minutes only must not leave their history for ever.
const firstSweep = 5 * time.Second

// maintain does what has to be done from time to time, until ctx is done.
func (l *Layer) maintain(ctx context.Context) {
	beat := time.NewTicker(l.opt.Lease / beatsPerLease)
	defer beat.Stop()
	sweep := time.NewTimer(firstSweep)
	defer sweep.Stop()
	if l.opt.SweepEvery < 0 {
		sweep.Stop()
	}
	for swept := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if err := l.beat(ctx); err != nil && ctx.Err() == nil {
				l.opt.Log.Warn("kvlayer: lease not renewed", "ns", l.ns, "segment", l.opt.Segment, "err", err)
			}
		case <-sweep.C:
			sweep.Reset(l.opt.SweepEvery)
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
	reads := l.reads()
	if len(reads) == 0 {
		return l.leave(ctx)
	}
	b := &kvstore.Batch{}
	b.Put(l.ownerKey(), ownerInfo{alive: l.opt.Now(), reads: reads}.encode())
	l.announced.Store(true)
	return l.apply(ctx, b)
}

func (l *Layer) ownerKey() kvstore.Key { return l.keys.prefix(kindOwner, []byte(l.opt.Owner)...) }

// reads returns the commits whose content the open files read, ascending.
func (l *Layer) reads() (reads []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.orphans {
		reads = append(reads, f.reads())
	}
	for _, f := range l.open {
		reads = append(reads, f.reads())
	}
	slices.Sort(reads)
	return slices.Compact(reads)
}

// reads returns the commit whose content lies under what was written.
func (f *file) reads() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.body.version
}

// leave says that the layer needs nothing any more, if it ever said otherwise.
func (l *Layer) leave(ctx context.Context) error {
	if !l.announced.Load() {
		return nil
	}
	b := &kvstore.Batch{}
	b.Delete(l.ownerKey())
	err := l.apply(ctx, b)
	if err == nil {
		l.announced.Store(false)
	}
	return err
}

// owners returns the commits that living layers need, and the keys of dead
// ones. This layer lives, whatever its record says: the machine may have slept.
func (l *Layer) owners(ctx context.Context) (needed []uint64, dead []kvstore.Key, err error) {
	needed = l.reads()
	deadline := l.opt.Now().Add(-l.opt.Lease)
	err = l.scan(ctx, l.keys.prefix(kindOwner), func(item kvstore.Item) (bool, error) {
		o, err := decodeOwner(item.Value)
		switch {
		case err != nil:
			return false, l.corrupt("owner", item.Key)
		case item.Key == l.ownerKey():
		case o.alive.Before(deadline):
			dead = append(dead, item.Key)
		default:
			needed = append(needed, o.reads...)
		}
		return true, nil
	})
	return needed, dead, err
}
