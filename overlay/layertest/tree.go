package layertest

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Words for what the tests do over and over. Each fails the test if it cannot
// do what it says.

var ctx = context.Background()

// perm0 is what tests make files with where it does not matter.
var perm0 = overlay.Perm{Mode: 0o755}

func mkdir(t TB, l overlay.Layer, names ...overlay.Name) {
	t.Helper()
	for _, name := range names {
		if err := l.Mkdir(ctx, name, perm0); err != nil {
			t.Fatalf("Mkdir(%q): %v", name, err)
		}
	}
}

func write(t TB, l overlay.Layer, name overlay.Name, text string) {
	t.Helper()
	h := create(t, l, name, overlay.Create|overlay.Truncate)
	put(t, h, text, 0)
	finish(t, h)
}

func create(t TB, l overlay.Layer, name overlay.Name, flag overlay.OpenFlag) overlay.WriteHandle {
	t.Helper()
	h, err := l.OpenFile(ctx, name, flag, overlay.Perm{Mode: 0o644})
	if err != nil {
		t.Fatalf("OpenFile(%q): %v", name, err)
	}
	return h
}

func put(t TB, h overlay.WriteHandle, text string, off int64) {
	t.Helper()
	if n, err := h.WriteAt([]byte(text), off); n != len(text) || err != nil {
		t.Fatalf("WriteAt(%d bytes, %d): got %d, %v", len(text), off, n, err)
	}
}

// finish commits what h wrote and closes it.
func finish(t TB, h overlay.WriteHandle) {
	t.Helper()
	if err := errors.Join(h.Flush(ctx), h.Close()); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

func read(t TB, l overlay.Reader, name overlay.Name) string {
	t.Helper()
	h, err := l.Open(ctx, name)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	defer h.Close()
	return content(t, h)
}

func content(t TB, h overlay.Handle) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	return string(b)
}

func lstat(t TB, l overlay.Reader, name overlay.Name) overlay.Attr {
	t.Helper()
	a, err := l.Lstat(ctx, name)
	if err != nil {
		t.Fatalf("Lstat(%q): %v", name, err)
	}
	return a
}

func list(t TB, l overlay.Reader, dir overlay.Name) []string {
	t.Helper()
	entries, err := l.ReadDir(ctx, dir)
	if err != nil {
		t.Fatalf("ReadDir(%q): %v", dir, err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func marks(t TB, l overlay.Whiteouter, dir overlay.Name) []string {
	t.Helper()
	names, err := l.Marks(ctx, dir)
	if err != nil {
		t.Fatalf("Marks(%q): %v", dir, err)
	}
	return names
}

func absence(t TB, l overlay.Whiteouter, name overlay.Name) overlay.Absence {
	t.Helper()
	a, err := l.Absence(ctx, name)
	if err != nil {
		t.Fatalf("Absence(%q): %v", name, err)
	}
	return a
}

func ok(t TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// want checks that err is a PathError with errno inside.
func want(t TB, what string, err error, errno syscall.Errno) {
	t.Helper()
	if got := errnoOf(err); got != errno {
		t.Errorf("%s: got %v, want %v", what, err, errno)
	}
}

func wantList(t TB, l overlay.Reader, dir overlay.Name, names ...string) {
	t.Helper()
	if got := list(t, l, dir); !slices.Equal(got, names) {
		t.Errorf("ReadDir(%q): got %q, want %q", dir, got, names)
	}
}

func wantRead(t TB, l overlay.Reader, name overlay.Name, text string) {
	t.Helper()
	if got := read(t, l, name); got != text {
		t.Errorf("%q holds %.80q, want %.80q", name, got, text)
	}
}

func wantGone(t TB, l overlay.Reader, name overlay.Name) {
	t.Helper()
	_, err := l.Lstat(ctx, name)
	want(t, "Lstat("+string(name)+")", err, syscall.ENOENT)
}

// errnoOf returns the errno inside err, 0 if there is none.
func errnoOf(err error) syscall.Errno {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}

// as returns the ability T of l, which the layer declared.
func as[T any](t TB, l any) T {
	t.Helper()
	v, ok := overlay.As[T](l)
	if !ok {
		t.Fatalf("the layer lacks an ability that it declared")
	}
	return v
}
