package overlay_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
	"github.com/wsfs/wsfs/router"
)

// write makes name a file of l that holds text.
func write(t testing.TB, l overlay.Layer, name overlay.Name, text string) {
	t.Helper()
	h, err := l.OpenFile(context.Background(), name, overlay.Create|overlay.Truncate, overlay.Perm{Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// mkdir makes directories of l.
func mkdir(t testing.TB, l overlay.Layer, names ...overlay.Name) {
	t.Helper()
	for _, name := range names {
		if err := l.Mkdir(context.Background(), name, overlay.Perm{Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns what name holds.
func read(t testing.TB, l overlay.Reader, name overlay.Name) string {
	t.Helper()
	h, err := l.Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	b, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// list returns the names in a directory.
func list(t testing.TB, l overlay.Reader, dir overlay.Name) []string {
	t.Helper()
	entries, err := l.ReadDir(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// want fails the test unless err has errno.
func want(t testing.TB, what string, err error, errno syscall.Errno) {
	t.Helper()
	if !errors.Is(err, errno) {
		t.Errorf("%s: got %v, want %v", what, err, errno)
	}
}

// wantList fails the test unless dir lists names.
func wantList(t testing.TB, l overlay.Reader, dir overlay.Name, names ...string) {
	t.Helper()
	if got := list(t, l, dir); !slices.Equal(got, names) {
		t.Errorf("ReadDir(%q): got %q, want %q", dir, got, names)
	}
}

// TestRenameLowerDirectory moves directories of a lower, and again what is in
// them, and looks at all of it from a second Overlay.
func TestRenameLowerDirectory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	lower, upper := memlayer.New(memlayer.Options{}), memlayer.New(memlayer.Options{})
	mkdir(t, lower, "p", "p/d", "q")
	write(t, lower, "p/d/f", "f")
	write(t, lower, "p/g", "g")
	o := overlay.New(upper, lower)
	for _, r := range [][2]overlay.Name{{"p", "r"}, {"r/d", "q/e"}, {"q", "s"}, {"r", "p"}} {
		if err := o.Rename(ctx, r[0], r[1], 0); err != nil {
			t.Fatalf("Rename(%q, %q): %v", r[0], r[1], err)
		}
	}
	for _, o := range []*overlay.Overlay{o, overlay.New(upper, lower), overlay.New(nil, upper, lower)} {
		wantList(t, o, ".", "p", "s")
		wantList(t, o, "p", "g")
		wantList(t, o, "s", "e")
		if got := read(t, o, "s/e/f"); got != "f" {
			t.Errorf("s/e/f holds %q, want f", got)
		}
		_, err := o.Lstat(ctx, "p/d/f")
		want(t, "Lstat(p/d/f)", err, syscall.ENOENT)
	}
	top := memlayer.New(memlayer.Options{})
	o = overlay.New(top, upper, lower)
	if err := o.Rename(ctx, "s/e", "e", 0); err != nil {
		t.Fatal(err)
	}
	write(t, o, "e/f", "F")
	mkdir(t, o, "s/e")
	o = overlay.New(top, upper, lower)
	wantList(t, o, "e", "f")
	wantList(t, o, "s/e")
	if got := read(t, o, "e/f"); got != "F" {
		t.Errorf("e/f holds %q, want F", got)
	}
	if got := read(t, lower, "p/d/f"); got != "f" {
		t.Errorf("the lower p/d/f holds %q, want f", got)
	}
}

// TestFullDisk is fault 14: a copy-up that does not fit fails with ENOSPC and
// leaves the lower file as it is, and removing works when the disk is full.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	big := strings.Repeat("x", 1<<16)
	for _, route := range []overlay.Name{"", "memory/"} {
		disk := memlayer.New(memlayer.Options{Bytes: 1 << 14})
		table, err := router.New(router.Rules{Agent: "a"})
		if err != nil {
			t.Fatal(err)
		}
		layers := map[router.Segment]overlay.Upper{router.Local: disk}
		for _, r := range table.Routes() {
			layers[r.Segment] = memlayer.New(memlayer.Options{Bytes: 1 << 14, Source: overlay.Store, Dev: 2})
		}
		m, err := overlay.NewMux(table, layers)
		if err != nil {
			t.Fatal(err)
		}
		project := memlayer.New(memlayer.Options{})
		mkdir(t, project, "memory")
		big1, big2 := route+"big", route+"big2"
		write(t, project, big1, big)
		write(t, project, "other", big)
		o := overlay.New(m, project)
		_, err = o.OpenFile(ctx, big1, overlay.Append, overlay.Perm{})
		want(t, "OpenFile", err, syscall.ENOSPC)
		want(t, "Rename", o.Rename(ctx, big1, big2, 0), syscall.ENOSPC)
		want(t, "Rename across", o.Rename(ctx, "other", "memory/other", 0), syscall.ENOSPC)
		if got := read(t, o, big1); got != big {
			t.Errorf("%q has %d bytes after the failure, want %d", big1, len(got), len(big))
		}
		write(t, o, "fill", big[:1<<14])
		write(t, o, big1, "") // needs no data
		if err := o.Remove(ctx, big1); err != nil {
			t.Errorf("Remove on a full disk: %v", err)
		}
		if err := o.Remove(ctx, "other"); err != nil {
			t.Errorf("Remove on a full disk: %v", err)
		}
		_, err = o.Tmpfile(ctx, "fill", overlay.Perm{})
		want(t, "Tmpfile in a file", err, syscall.ENOTDIR)
		if err := overlay.Check(ctx, o); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
}
