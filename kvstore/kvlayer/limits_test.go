package kvlayer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/kvstore/errkv"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

func TestQuota(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	quota := func(o *Options) { o.Quota = 100_000 }
	l := open(t, store, quota)
	skills := open(t, store, quota, func(o *Options) { o.Segment = "skills" })
	ctx := t.Context()
	write(t, l, "m", strings.Repeat("m", 50_000))
	write(t, skills, "s", strings.Repeat("s", 40_000))

	h, err := l.OpenFile(ctx, "m", 0, overlay.Perm{})
	do(t, "OpenFile", err)
	_, err = h.WriteAt(make([]byte, 20_000), 50_000)
	wantErrno(t, "WriteAt over the quota", err, syscall.EDQUOT)
	_, err = h.WriteAt(make([]byte, 5_000), 50_000)
	do(t, "WriteAt within the quota", err)
	// Another segment takes the room before the commit.
	write(t, skills, "t", strings.Repeat("t", 8_000))
	wantErrno(t, "Flush", h.Flush(ctx), syscall.EDQUOT)
	wantErrno(t, "Close", h.Close(), syscall.EDQUOT)
	if got := read(t, l, "m"); got != strings.Repeat("m", 50_000) {
		t.Errorf("the file after EDQUOT: %d bytes, want it as it was", len(got))
	}
	s, err := l.Statfs(ctx)
	do(t, "Statfs", err)
	if s.Blocks != 100_000/4096 || s.Bfree != 0 {
		t.Errorf("Statfs: got %+v", s)
	}
	do(t, "Remove", skills.Remove(ctx, "s"))
	write(t, l, "m", strings.Repeat("n", 60_000))
}

// What is appended counts once, also while it is replayed.
func TestQuotaInAConflict(t *testing.T) {
	t.Parallel()
	a, b := two(t, func(o *Options) { o.Quota = 10_000 })
	write(t, a, "m", "1\n")
	text := strings.Repeat("a", 6_000)
	h := edit(t, a, "m", overlay.Append, text)
	write(t, b, "m", "1\n2\n")
	do(t, "Flush", h.Flush(t.Context()))
	do(t, "Close", h.Close())
	if got := read(t, b, "m"); got != "1\n2\n"+text {
		t.Errorf("read: got %d bytes, want %d", len(got), 4+len(text))
	}
	if n := a.grown.Load(); n != 0 {
		t.Errorf("uncommitted growth after Close: got %d, want 0", n)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := open(t, memkv.New())
	ctx := t.Context()
	h, err := l.OpenFile(ctx, "f", overlay.Create, overlay.Perm{Mode: perm644})
	do(t, "OpenFile", err)
	defer h.Close()
	_, err = h.WriteAt([]byte("x"), MaxFile)
	wantErrno(t, "WriteAt beyond MaxFile", err, syscall.EFBIG)
	_, err = l.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetSize, Size: MaxFile + 1})
	wantErrno(t, "SetAttr beyond MaxFile", err, syscall.EFBIG)

	// A sparse file of the largest size costs a record.
	_, err = l.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetSize, Size: MaxFile})
	do(t, "SetAttr to MaxFile", err)
	_, err = h.WriteAt([]byte("end"), MaxFile-3)
	do(t, "WriteAt", err)
	do(t, "Flush", h.Flush(ctx))
	b := make([]byte, 5)
	if n, err := h.ReadAt(b, MaxFile-5); n != 5 || string(b) != "\x00\x00end" {
		t.Errorf("ReadAt: got %q, %v", b, err)
	}

	long := overlay.Name(strings.Repeat("n", 255))
	write(t, l, long, "x")
	_, err = l.Lstat(ctx, long+"n")
	wantErrno(t, "Lstat of 256 bytes", err, syscall.ENAMETOOLONG)
	write(t, l, "\xff\n\x01", "bytes")
	if got := read(t, l, "\xff\n\x01"); got != "bytes" {
		t.Errorf("read: got %q", got)
	}
}

// silent is a store that can stop answering.
type silent struct {
	kvstore.Store
	off atomic.Bool
}

func (s *silent) wait(ctx context.Context) error {
	if !s.off.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Get(ctx context.Context, key kvstore.Key) (kvstore.Item, error) {
	if err := s.wait(ctx); err != nil {
		return kvstore.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *silent) Apply(ctx context.Context, b *kvstore.Batch) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Apply(ctx, b)
}

func (s *silent) Scan(ctx context.Context, prefix kvstore.Key, fn func(kvstore.Item) error) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Scan(ctx, prefix, fn)
}

// Fault 27: a store that does not answer.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	store := &silent{Store: memkv.New()}
	l := open(t, store, func(o *Options) { o.Timeout = 20 * time.Millisecond })
	ctx := t.Context()
	write(t, l, "known", "cached")
	write(t, l, "m", "1\n")
	if got := read(t, l, "known"); got != "cached" {
		t.Fatalf("read: got %q", got)
	}
	h := edit(t, l, "m", overlay.Append, "2\n")

	store.off.Store(true)
	if got := read(t, l, "known"); got != "cached" {
		t.Errorf("read of a cached file: got %q", got)
	}
	_, err := l.Lstat(ctx, "unknown")
	wantErrno(t, "Lstat of what is not cached", err, syscall.EIO)
	wantErrno(t, "Mkdir", l.Mkdir(ctx, "d", overlay.Perm{}), syscall.EIO)
	wantErrno(t, "Flush", h.Flush(ctx), syscall.EIO)

	store.off.Store(false)
	for l.answers() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	do(t, "Flush", h.Flush(ctx))
	do(t, "Close", h.Close())
	if got := read(t, l, "m"); got != "1\n2\n" {
		t.Errorf("read: got %q", got)
	}
	do(t, "Mkdir", l.Mkdir(ctx, "d", overlay.Perm{}))
}

// Fault 27: a full store. Writing fails with ENOSPC, the file is as it was,
// and removing goes on if the store lets it.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	inject := &errkv.Injector{}
	l := open(t, errkv.Wrap(memkv.New(), inject))
	ctx := t.Context()
	write(t, l, "m", "old")
	h := edit(t, l, "m", overlay.Truncate, big)
	inject.Add(errkv.Each(errkv.OfKind(errkv.Apply), errkv.Fault{Before: kvstore.ErrFull}))
	wantErrno(t, "Flush", h.Flush(ctx), syscall.ENOSPC)
	wantErrno(t, "Mkdir", l.Mkdir(ctx, "d", overlay.Perm{}), syscall.ENOSPC)
	wantErrno(t, "Close", h.Close(), syscall.ENOSPC)
	if got := read(t, l, "m"); got != "old" {
		t.Errorf("read: got %q, want old", got)
	}
	inject.Reset()
	write(t, l, "m", big)
}

// A damaged value is EIO for who needs it, and found by Check.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	ctx := t.Context()
	// Not open: its cleanup would find the damage, too.
	opened := func() (*Layer, error) { return New(ctx, store, "ns", Options{SweepEvery: -1, Spool: t.TempDir()}) }
	l, err := opened()
	do(t, "New", err)
	write(t, l, "f", big)
	write(t, l, "g", "fine")
	r, err := l.newest(ctx, "lstat", "f")
	do(t, "newest", err)
	do(t, "Close", l.Close())

	damage := func(key kvstore.Key, value string) {
		b := &kvstore.Batch{}
		b.Put(key, []byte(value))
		do(t, "Apply", store.Apply(ctx, b))
	}
	damage(l.keys.chunk(r.chunks[0]), "not what it was")
	if l, err = opened(); err != nil {
		t.Fatalf("New: %v", err)
	}
	h, err := l.Open(ctx, "f")
	do(t, "Open", err)
	_, err = h.ReadAt(make([]byte, 10), 0)
	wantErrno(t, "ReadAt of a damaged chunk", err, syscall.EIO)
	_, err = h.ReadAt(make([]byte, 10), 4<<smallShift) // the others are alike
	do(t, "ReadAt of another chunk", err)
	do(t, "Close", h.Close())

	damage(l.keys.record(r.ino), "\x01damaged")
	_, err = l.Lstat(ctx, "f") // cached
	do(t, "Lstat", err)
	do(t, "Close", l.Close())
	if l, err = opened(); err != nil {
		t.Fatalf("New: %v", err)
	}
	_, err = l.Lstat(ctx, "f")
	wantErrno(t, "Lstat of a damaged record", err, syscall.EIO)
	wantErrno(t, "Remove", l.Remove(ctx, "f"), syscall.EIO)
	wantErrno(t, "Check", l.Check(ctx), syscall.EIO)
	if got := read(t, l, "g"); got != "fine" {
		t.Errorf("read of another file: got %q", got)
	}
	do(t, "Close", l.Close())

	damage(l.keys.head, "\x02")
	if _, err := opened(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("New on a damaged head: got %v, want an error that says so", err)
	}
}

// Writing and reading a large file takes memory that does not depend on its
// size, and neither does copying it up.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	size := int64(64 << 20)
	if testing.Verbose() && !testing.Short() {
		size = largeSize
	}
	store, err := badgerkv.Open(t.TempDir(), badgerkv.Options{NoSync: true})
	do(t, "badgerkv.Open", err)
	t.Cleanup(func() { do(t, "Close", store.Close()) })
	l := open(t, store, func(o *Options) { o.Memory = 4 << 20 })
	ctx := t.Context()

	h, err := l.OpenFile(ctx, "big", overlay.Create, overlay.Perm{Mode: perm644})
	do(t, "OpenFile", err)
	sum, part := sha256.New(), make([]byte, 1<<20)
	peak := uint64(0)
	for off := int64(0); off < size; off += int64(len(part)) {
		for i := 0; i < len(part); i += 8 {
			part[i], part[i+1] = byte(off>>20), byte(i>>8)
		}
		sum.Write(part)
		_, err := h.WriteAt(part, off)
		do(t, "WriteAt", err)
		peak = max(peak, uint64(l.dirty.Load()))
	}
	if peak > 6<<20 {
		t.Errorf("uncommitted in memory: %d bytes, want at most about 4 MiB", peak)
	}
	do(t, "Flush", h.Flush(ctx))
	_, err = h.WriteAt([]byte("changed"), size/2)
	do(t, "WriteAt", err)
	_, err = h.WriteAt(make([]byte, 7), size/2) // what was there, up to the pattern
	do(t, "WriteAt", err)
	do(t, "Close", h.Close())

	from, err := l.Open(ctx, "big")
	do(t, "Open", err)
	a, err := from.Stat(ctx)
	do(t, "Stat", err)
	do(t, "CopyUp", l.CopyUp(ctx, "copy", overlay.Copy{Attr: a, From: from}))
	do(t, "Close", from.Close())
	for _, name := range []overlay.Name{"big", "copy"} {
		h, err := l.Open(ctx, name)
		do(t, "Open", err)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(h, 0, size+1), part)
		if err != nil || n != size {
			t.Errorf("read of %s: %d bytes, %v, want %d", name, n, err, size)
		}
		do(t, "Close", h.Close())
	}
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	t.Logf("%d MiB: heap in use %d MiB, from the system %d MiB", size>>20, m.HeapInuse>>20, m.Sys>>20)
}

// Fault 26: a directory of very many small files.
func TestManySmallFiles(t *testing.T) {
	t.Parallel()
	n := 2_000
	if testing.Verbose() && !testing.Short() {
		n = 50_000
	}
	l := open(t, memkv.New())
	ctx := t.Context()
	for i := range n {
		write(t, l, overlay.Name(fmt.Sprintf("f%d", i)), "x")
	}
	entries, err := l.ReadDir(ctx, overlay.Root)
	if err != nil || len(entries) != n {
		t.Fatalf("ReadDir: got %d entries, %v, want %d", len(entries), err, n)
	}
	do(t, "Check", l.Check(ctx))
	for _, e := range entries {
		do(t, "Remove", l.Remove(ctx, overlay.Name(e.Name)))
	}
	if got := ls(t, l, overlay.Root); got != "" {
		t.Errorf("ReadDir: got %q, want nothing", got)
	}
}

const largeSize = 1 << 30
