package memlayer_test

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// TestUnlinkedFile checks that a file without a name lives until it is closed,
// and that its space then comes back.
func TestUnlinkedFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := memlayer.New(memlayer.Options{Bytes: 1 << 16})
	h, err := l.OpenFile(ctx, "f", overlay.Create, overlay.Perm{Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt(make([]byte, 1<<16), 0); err != nil {
		t.Fatalf("writing as much as fits: %v", err)
	}
	if n, err := h.WriteAt([]byte("x"), 1<<16); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("writing one byte more: got %d, %v, want ENOSPC", n, err)
	}
	if err := l.Remove(ctx, "f"); err != nil {
		t.Fatal(err)
	}
	if n, err := h.ReadAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Errorf("reading after Remove: got %d, %v", n, err)
	}
	if st, _ := l.Statfs(ctx); st.Bfree != 0 {
		t.Errorf("free blocks while the removed file is open: got %d, want 0", st.Bfree)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if st, _ := l.Statfs(ctx); st.Bfree != 16 {
		t.Errorf("free blocks after the last Close: got %d, want 16", st.Bfree)
	}
}

// TestHoles checks that holes read as zeros, take no space and are found.
func TestHoles(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := memlayer.New(memlayer.Options{})
	h, err := l.OpenFile(ctx, "f", overlay.Create, overlay.Perm{Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.WriteAt([]byte("end"), 1<<40); err != nil {
		t.Fatal(err)
	}
	a, err := h.Stat(ctx)
	if err != nil || a.Size != 1<<40+3 || a.Blocks != 8 {
		t.Errorf("Stat: got size %d, %d blocks, %v, want size %d, 8 blocks", a.Size, a.Blocks, err, int64(1<<40+3))
	}
	p := []byte{1, 2, 3, 4}
	if n, err := h.ReadAt(p, 1<<40-2); n != 4 || err != nil || string(p) != "\x00\x00en" {
		t.Errorf("ReadAt over the edge: got %d, %q, %v", n, p, err)
	}
	if n, err := h.ReadAt(p, 1<<40+1); n != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt over the end: got %d, %v, want 2, EOF", n, err)
	}
	s := h.(overlay.HoleSeeker)
	if at, err := s.SeekHole(ctx, 1<<40-5000, 3); at != 1<<40 || err != nil {
		t.Errorf("SEEK_DATA: got %d, %v", at, err)
	}
}
