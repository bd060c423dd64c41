package kvlayer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/overlay"
)

func benchLayer(b *testing.B) *Layer {
	b.Helper()
	store, err := badgerkv.Open(b.TempDir(), badgerkv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := New(context.Background(), store, "ns", Options{Segment: "memory", SweepEvery: -1, Spool: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// BenchmarkAppendLine is `echo line >>MEMORY.md`: open, append, flush, close,
// on a durable store. Its measure is BenchmarkFileAppend.
func BenchmarkAppendLine(b *testing.B) {
	l := benchLayer(b)
	ctx := context.Background()
	for b.Loop() {
		h, err := l.OpenFile(ctx, "MEMORY.md", overlay.Create|overlay.Append, overlay.Perm{Mode: 0o644})
		must(b, err)
		_, err = h.WriteAt([]byte("a line to remember, of sixty bytes or so, as agents write\n"), 0)
		must(b, err)
		must(b, h.Flush(ctx))
		must(b, h.Close())
	}
}

// BenchmarkFileAppend appends the same line to a file on disk, durably.
func BenchmarkFileAppend(b *testing.B) {
	name := filepath.Join(b.TempDir(), "MEMORY.md")
	for b.Loop() {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		must(b, err)
		_, err = f.WriteString("a line to remember, of sixty bytes or so, as agents write\n")
		must(b, err)
		must(b, f.Sync())
		must(b, f.Close())
	}
}

func BenchmarkCreate(b *testing.B) {
	l := benchLayer(b)
	ctx := context.Background()
	n := 0
	for b.Loop() {
		n++
		h, err := l.OpenFile(ctx, overlay.Name(fmt.Sprintf("f%d", n)), overlay.Create|overlay.Excl, overlay.Perm{Mode: 0o644})
		must(b, err)
		must(b, h.Close())
	}
}

func BenchmarkLstat(b *testing.B) {
	l := benchLayer(b)
	ctx := context.Background()
	must(b, l.Mkdir(ctx, "d", overlay.Perm{Mode: 0o755}))
	for b.Loop() {
		_, err := l.Lstat(ctx, "d")
		must(b, err)
	}
}

func BenchmarkOpenRead(b *testing.B) {
	l := benchLayer(b)
	ctx := context.Background()
	h, err := l.OpenFile(ctx, "f", overlay.Create, overlay.Perm{Mode: 0o644})
	must(b, err)
	_, err = h.WriteAt(make([]byte, 10_000), 0)
	must(b, err)
	must(b, h.Close())
	buf := make([]byte, 10_000)
	for b.Loop() {
		h, err := l.Open(ctx, "f")
		must(b, err)
		_, err = h.ReadAt(buf, 0)
		must(b, err)
		must(b, h.Close())
	}
}
