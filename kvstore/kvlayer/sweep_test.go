package kvlayer

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/errkv"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// A faulty case is an operation that makes several calls of the store.
type faulty struct {
	name string
	// other is done by another layer first, after open.
	open  func(t *testing.T, l *Layer) overlay.WriteHandle
	other func(t *testing.T, l *Layer)
	do    func(ctx context.Context, l *Layer, h overlay.WriteHandle) error
}

var big = strings.Repeat("0123456789abcdef", 20_000)

// appendTo opens m and appends to it, uncommitted.
func appendTo(t *testing.T, l *Layer) overlay.WriteHandle {
	return edit(t, l, "m", overlay.Append, "mine\n")
}

func rewrite(t *testing.T, l *Layer) overlay.WriteHandle {
	return edit(t, l, "m", overlay.Truncate, "zero\n1\n2\n")
}

func flush(ctx context.Context, _ *Layer, h overlay.WriteHandle) error { return h.Flush(ctx) }

var faults = []faulty{
	{name: "mkdir", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		return l.Mkdir(ctx, "d/new", overlay.Perm{Mode: 0o755})
	}},
	{name: "rename a directory", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		return l.Rename(ctx, "d", "x", overlay.LeaveWhiteout)
	}},
	{name: "exchange", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		return l.Rename(ctx, "d", "m", overlay.Exchange)
	}},
	{name: "rename over", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		return l.Rename(ctx, "d/f", "m", 0)
	}},
	{name: "remove", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error { return l.Remove(ctx, "m") }},
	{name: "whiteout", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error { return l.Whiteout(ctx, "m") }},
	{name: "link", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error { return l.Link(ctx, "m", "d/m") }},
	{name: "truncate", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		_, err := l.SetAttr(ctx, "m", overlay.SetAttr{Valid: overlay.SetSize | overlay.SetMode, Size: 1, Mode: 0o600})
		return err
	}},
	{name: "write chunks", open: func(t *testing.T, l *Layer) overlay.WriteHandle { return edit(t, l, "m", 0, big) }, do: flush},
	{name: "copy up", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error {
		from, err := l.Open(ctx, "d/big")
		if err != nil {
			return err
		}
		defer from.Close()
		a, err := from.Stat(ctx)
		if err != nil {
			return err
		}
		return l.CopyUp(ctx, "copy", overlay.Copy{Attr: a, From: from})
	}},
	{name: "link a tmpfile", open: func(t *testing.T, l *Layer) overlay.WriteHandle {
		h, err := l.Tmpfile(t.Context(), overlay.Root, overlay.Perm{Mode: 0o600})
		do(t, "Tmpfile", err)
		_, err = h.WriteAt([]byte(big), 0)
		do(t, "WriteAt", err)
		return h
	}, do: func(ctx context.Context, l *Layer, h overlay.WriteHandle) error { return l.LinkHandle(ctx, h, "new") }},
	{name: "append", open: appendTo, do: flush},
	{name: "replay an append", open: appendTo, other: func(t *testing.T, l *Layer) { write(t, l, "m", "1\n2\n3\n") }, do: flush},
	{name: "merge", open: rewrite, other: func(t *testing.T, l *Layer) { write(t, l, "m", "1\n2\n3\n") }, do: flush},
	{name: "sidecar", open: rewrite, other: func(t *testing.T, l *Layer) { write(t, l, "m", "x\ny\n") }, do: flush},
	{name: "deliver an append", open: appendTo, other: func(t *testing.T, l *Layer) {
		write(t, l, "tmp", "x\n")
		do(t, "Rename", l.Rename(t.Context(), "tmp", "m", 0))
	}, do: flush},
	{name: "deliver a merge", open: rewrite, other: func(t *testing.T, l *Layer) {
		write(t, l, "tmp", "1\n2\n3\n")
		do(t, "Rename", l.Rename(t.Context(), "tmp", "m", 0))
	}, do: flush},
	{name: "removed elsewhere", open: appendTo, other: func(t *testing.T, l *Layer) { do(t, "Remove", l.Remove(t.Context(), "m")) }, do: flush},
	{name: "sweep", do: func(ctx context.Context, l *Layer, _ overlay.WriteHandle) error { return l.Sweep(ctx) }},
}

// Each step of each operation fails once. Afterwards the tree is as before or
// as without the fault, nothing is broken, and the same operation, tried again,
// ends where it would have ended without the fault.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var before, after string // without a fault
			run := func(t *testing.T, inject *errkv.Injector) error {
				return c.run(t, inject, &before, &after)
			}
			do(t, "without a fault", run(t, &errkv.Injector{}))
			errkv.Sweep(t, run)
		})
	}
}

func (c faulty) run(t *testing.T, inject *errkv.Injector, before, after *string) error {
	at := newClock()
	fixed := func(o *Options) {
		o.Now = at.now
		o.History = History{Commits: 1, Age: time.Nanosecond}
		o.Lease = time.Hour
	}
	store := memkv.New()
	other := open(t, store, fixed)
	do(t, "Mkdir", other.Mkdir(t.Context(), "d", overlay.Perm{Mode: 0o755}))
	write(t, other, "d/f", "f")
	write(t, other, "d/big", big)
	write(t, other, "d/big", big[1:])
	write(t, other, "m", "1\n2\n")
	at.advance(2 * time.Hour) // all of that is old enough to be swept

	gate := &gate{Store: store, faulty: errkv.Wrap(store, inject)}
	l := open(t, gate, fixed)
	var h overlay.WriteHandle
	if c.open != nil {
		h = c.open(t, l)
		defer func() { do(t, "Close", h.Close()) }()
	}
	if c.other != nil {
		c.other(t, other)
	}
	was := dump(t, other, overlay.Root)
	gate.on.Store(true)
	err := c.do(t.Context(), l, h)
	gate.on.Store(false)
	l.down.Store(0)

	do(t, "Check after the operation", l.Check(t.Context()))
	held := dump(t, other, overlay.Root)
	if *after == "" {
		*before, *after = was, held
		return err
	}
	if held != *before && held != *after {
		t.Errorf("the tree is\n%s\nwant\n%s\nor\n%s", held, *before, *after)
	}
	if got := dump(t, l, overlay.Root); h == nil && got != held {
		t.Errorf("the layer shows\n%s\nthe store holds\n%s", got, held)
	}
	if err != nil && held == *before {
		do(t, "the operation again", c.do(t.Context(), l, h))
	} else if err != nil && h != nil {
		do(t, "Flush again", h.Flush(t.Context()))
	}
	if got := dump(t, other, overlay.Root); got != *after {
		t.Errorf("the tree, tried again, is\n%s\nwant\n%s", got, *after)
	}
	return err
}

// A gate lets calls go to the faulty store while it is on.
type gate struct {
	kvstore.Store
	faulty kvstore.Store
	on     atomic.Bool
}

func (g *gate) store() kvstore.Store {
	if g.on.Load() {
		return g.faulty
	}
	return g.Store
}

func (g *gate) Get(ctx context.Context, key kvstore.Key) (kvstore.Item, error) {
	return g.store().Get(ctx, key)
}

func (g *gate) Scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) error) error {
	return g.store().Scan(ctx, prefix, fn)
}

func (g *gate) Apply(ctx context.Context, b *kvstore.Batch) error { return g.store().Apply(ctx, b) }
