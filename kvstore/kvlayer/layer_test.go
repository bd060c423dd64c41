package kvlayer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

const perm644 = 0o644

// open returns a layer on store, which is closed and checked with the test.
func open(t *testing.T, store kvstore.Store, change ...func(*Options)) *Layer {
	t.Helper()
	opt := Options{Segment: "memory", Dev: 7, Host: "here", SweepEvery: -1, Spool: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, c := range change {
		c(&opt)
	}
	l, err := New(t.Context(), store, "agents/a/users/u", opt)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := l.Check(context.Background()); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return l
}

// A clock shows the same time until it is moved.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(1e18)
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func write(t *testing.T, l *Layer, name overlay.Name, text string) {
	t.Helper()
	h, err := l.OpenFile(t.Context(), name, overlay.Create|overlay.Truncate, overlay.Perm{Mode: perm644})
	if err != nil {
		t.Fatalf("OpenFile(%q): %v", name, err)
	}
	if _, err := h.WriteAt([]byte(text), 0); err != nil {
		t.Fatalf("WriteAt(%q): %v", name, err)
	}
	if err := h.Flush(t.Context()); err != nil {
		t.Fatalf("Flush(%q): %v", name, err)
	}
	if err := h.Close(); err != nil {
		t.Fatalf("Close(%q): %v", name, err)
	}
}

func read(t *testing.T, l overlay.Reader, name overlay.Name) string {
	t.Helper()
	h, err := l.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	defer h.Close()
	return readHandleAll(t, h)
}

func readHandleAll(t *testing.T, h overlay.Handle) string {
	t.Helper()
	a, err := h.Stat(t.Context())
	if err != nil {
		t.Fatalf("Stat: %v", err)
	}
	b, err := io.ReadAll(io.NewSectionReader(h, 0, a.Size+1))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b)
}

func ls(t *testing.T, l overlay.Reader, name overlay.Name) string {
	t.Helper()
	entries, err := l.ReadDir(t.Context(), name)
	if err != nil {
		t.Fatalf("ReadDir(%q): %v", name, err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// do fails the test unless err is nil.
func do(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func wantErrno(t *testing.T, what string, err error, want syscall.Errno) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	l := open(t, store)
	ctx := t.Context()
	p := overlay.Perm{Mode: 0o777, Umask: 0o22, UID: 5, GID: 6}

	do(t, "Mkdir", l.Mkdir(ctx, "d", p))
	do(t, "Mkdir", l.Mkdir(ctx, "d/e", p))
	write(t, l, "d/e/f", "hello")
	do(t, "Symlink", l.Symlink(ctx, "e/f", "d/l", p))
	do(t, "Link", l.Link(ctx, "d/e/f", "g"))
	wantErrno(t, "Mkdir of a file", l.Mkdir(ctx, "g", p), syscall.EEXIST)
	wantErrno(t, "Remove of a full directory", l.Remove(ctx, "d"), syscall.ENOTEMPTY)
	wantErrno(t, "Rename into itself", l.Rename(ctx, "d", "d/e/x", 0), syscall.EINVAL)

	if got := ls(t, l, overlay.Root); got != "d g" {
		t.Errorf("ReadDir: got %q, want %q", got, "d g")
	}
	do(t, "Rename", l.Rename(ctx, "d/e", "x", 0))
	if got := read(t, l, "x/f"); got != "hello" {
		t.Errorf("after Rename: got %q, want hello", got)
	}
	a, err := l.Lstat(ctx, "g")
	do(t, "Lstat", err)
	if a.Nlink != 2 || a.Size != 5 || a.Source != overlay.Store || a.Dev != 7 || a.Version == 0 {
		t.Errorf("Lstat: got %+v", a)
	}
	d, err := l.Lstat(ctx, "d")
	do(t, "Lstat", err)
	if d.Mode != overlay.TypeDir|0o755 || d.Nlink != 2 || d.UID != 5 {
		t.Errorf("Lstat(d): got %+v", d)
	}

	// Another layer on the same store shows the same.
	other := open(t, store)
	if got := read(t, other, "x/f"); got != "hello" {
		t.Errorf("in another layer: got %q, want hello", got)
	}
	do(t, "Remove", other.Remove(ctx, "x/f"))
	_, err = l.Lstat(ctx, "x/f")
	wantErrno(t, "Lstat of what another layer removed", err, syscall.ENOENT)
	if got := read(t, l, "g"); got != "hello" {
		t.Errorf("the other name: got %q, want hello", got)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	l := open(t, memkv.New())
	ctx := t.Context()
	p := overlay.Perm{Mode: 0o755}
	do(t, "Whiteout", l.Whiteout(ctx, "gone"))
	do(t, "Whiteout again", l.Whiteout(ctx, "gone"))
	a, err := l.Absence(ctx, "gone")
	if err != nil || !a.Gone {
		t.Errorf("Absence: got %+v, %v, want gone", a, err)
	}
	if got := ls(t, l, overlay.Root); got != "" {
		t.Errorf("ReadDir: got %q, want nothing", got)
	}
	do(t, "Mkdir over a whiteout", l.Mkdir(ctx, "gone", p))
	if a, err = l.Absence(ctx, "gone"); err != nil || a.Gone || !a.Opaque {
		t.Errorf("Absence after Mkdir: got %+v, %v, want opaque", a, err)
	}
	do(t, "Mkdir", l.Mkdir(ctx, "d", p))
	do(t, "SetRedirect", l.SetRedirect(ctx, "d", "d"))
	do(t, "Rename", l.Rename(ctx, "d", "e", overlay.LeaveWhiteout))
	if a, err = l.Absence(ctx, "e"); err != nil || a.Redirect != "d" {
		t.Errorf("Absence after Rename: got %+v, %v, want redirect d", a, err)
	}
	do(t, "Whiteout in a directory", l.Whiteout(ctx, "e/x"))
	marks, err := l.Marks(ctx, "e")
	if err != nil || fmt.Sprint(marks) != "[x]" {
		t.Errorf("Marks: got %v, %v, want [x]", marks, err)
	}
	do(t, "Remove of a directory of whiteouts", l.Remove(ctx, "e"))
	do(t, "Sweep", l.Sweep(ctx))
	if got := ls(t, l, overlay.Root); got != "gone" {
		t.Errorf("ReadDir: got %q, want gone", got)
	}
}

func TestUnlinkedFilesGoOn(t *testing.T) {
	t.Parallel()
	l := open(t, memkv.New())
	ctx := t.Context()
	write(t, l, "f", strings.Repeat("x", 100<<10))
	h, err := l.OpenFile(ctx, "f", 0, overlay.Perm{})
	do(t, "OpenFile", err)
	do(t, "Remove", l.Remove(ctx, "f"))
	_, err = h.WriteAt([]byte("abc"), 0)
	do(t, "WriteAt", err)
	_, err = h.SetAttr(ctx, overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o600})
	do(t, "SetAttr", err)
	do(t, "Flush", h.Flush(ctx))
	a, err := h.Stat(ctx)
	if err != nil || a.Nlink != 0 || a.Mode&0o777 != 0o600 || a.Size != 100<<10 {
		t.Errorf("Stat: got %+v, %v", a, err)
	}
	if got := readHandleAll(t, h); got[:4] != "abcx" || len(got) != 100<<10 {
		t.Errorf("read: got %q... of %d bytes", got[:4], len(got))
	}
	do(t, "Close", h.Close())
}

func TestTmpfile(t *testing.T) {
	t.Parallel()
	l := open(t, memkv.New())
	ctx := t.Context()
	h, err := l.Tmpfile(ctx, overlay.Root, overlay.Perm{Mode: 0o600})
	do(t, "Tmpfile", err)
	_, err = h.WriteAt([]byte("abc"), 0)
	do(t, "WriteAt", err)
	if got := ls(t, l, overlay.Root); got != "" {
		t.Errorf("ReadDir: got %q, want nothing", got)
	}
	do(t, "LinkHandle", l.LinkHandle(ctx, h, "f"))
	if got := read(t, l, "f"); got != "abc" {
		t.Errorf("read: got %q, want abc", got)
	}
	_, err = h.WriteAt([]byte("d"), 3)
	do(t, "WriteAt", err)
	do(t, "Close", h.Close())
	if got := read(t, l, "f"); got != "abcd" {
		t.Errorf("read: got %q, want abcd", got)
	}
}

// countKind returns how many keys of a kind the segment has.
func (l *Layer) countKind(t *testing.T, kind byte) (n int) {
	t.Helper()
	err := l.scan(t.Context(), l.keys.prefix(kind), func(kvstore.Item) (bool, error) {
		n++
		return true, nil
	})
	do(t, "scan", err)
	return n
}
