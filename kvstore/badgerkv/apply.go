package badgerkv

import (
	"context"
	"fmt"
	"time"

	"github.com/wsfs/wsfs/kvstore"
)

// A request is a batch on its way to the committing goroutine.
type request struct {
	checks []kvstore.Op
	writes []write
	size   int        // bytes that writes take of a transaction, at most
	done   chan error // gets the outcome; has room for it
}

// A write sets or removes what a key of badger holds, with copies of what the
// caller passed.
type write struct {
	key   string
	value []byte
	del   bool
}

// opOverhead is what badger adds to the key and value of an entry, at most,
// counting the removal of an old value's parts.
const opOverhead = 16 + 2*32

// newRequest returns the request to apply b.
func newRequest(b *kvstore.Batch) *request {
	r := &request{done: make(chan error, 1)}
	for _, op := range b.Ops {
		if op.Kind == kvstore.OpCheck {
			r.checks = append(r.checks, op)
			continue
		}
		w := write{key: string(dataKey(op.Key)), del: op.Kind == kvstore.OpDelete}
		if !w.del {
			w.value = append([]byte{}, op.Value...)
		}
		r.writes = append(r.writes, w)
		r.size += len(op.Key) + len(w.value) + opOverhead
	}
	return r
}

// grace is how long Apply waits for a commit that has begun after its context
// ended: an interrupted caller mostly still learns what became of its batch.
const grace = time.Second

// Apply does all of b or nothing. If ctx ends while the batch is being
// committed, the outcome may stay unknown: ErrUnavailable.
func (s *Store) Apply(ctx context.Context, b *kvstore.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.alive.RUnlock()
	return s.apply(ctx, newRequest(b))
}

// apply has r committed. The caller keeps Close waiting.
func (s *Store) apply(ctx context.Context, r *request) error {
	select {
	case s.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-r.done:
		return err
	case <-time.After(grace):
		return fmt.Errorf("%w: %v while committing", kvstore.ErrUnavailable, ctx.Err())
	}
}
