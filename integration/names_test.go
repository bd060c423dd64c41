//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

// TestNames: every byte but NUL and slash may be in a name, of 1 to 255 bytes,
// on disk and in the store, and over a remount.
func TestNames(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	names := []string{strings.Repeat("n", 255), "\xff\xfe", "a\nb", " ", "-", "\u00e9", "e\u0301", ".wh.x", "%2F", "a\\b", "*", "con", "..."}
	for c := 1; c < 256; c++ {
		if c != '/' && c != '.' {
			names = append(names, string([]byte{byte(c)}), "x"+string([]byte{byte(c)}))
		}
	}
	w := mounted(t, project)
	for _, dir := range []string{"disk", "memory/store"} {
		d := filepath.Join(w.dir, dir)
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := os.WriteFile(filepath.Join(d, n), []byte(n), 0o644); err != nil && !errors.Is(err, os.ErrExist) {
				t.Errorf("%s: create %q: %v", dir, n, err)
			}
		}
		err := os.WriteFile(filepath.Join(d, strings.Repeat("n", 256)), nil, 0o644)
		if !errors.Is(err, unix.ENAMETOOLONG) {
			t.Errorf("%s: create a name of 256 bytes: got %v, want ENAMETOOLONG", dir, err)
		}
	}
	for range 2 {
		for _, dir := range []string{"disk", "memory/store"} {
			checkNames(t, filepath.Join(w.dir, dir), names)
		}
		w.remount()
	}
}

// checkNames compares what is in dir with names, each of which is its own
// content.
func checkNames(t *testing.T, dir string, names []string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, n := range names {
		missing[n] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if !missing[e.Name()] {
			t.Errorf("%s lists %q, which was not made", dir, e.Name())
		}
		delete(missing, e.Name())
		if got, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil || string(got) != e.Name() {
			t.Errorf("%s: %q holds %q, %v", dir, e.Name(), got, err)
		}
	}
	for n := range missing {
		t.Errorf("%s does not list %q", dir, n)
	}
}

// TestDeepPaths goes down further than a path can be long, by descriptors, in
// the project, on disk and in the store.
func TestDeepPaths(t *testing.T) {
	t.Parallel()
	const depth = 60 // of components of 100 bytes: 6000 bytes
	project := t.TempDir()
	descend(t, filepath.Join(project, "below"), depth, true)
	w := mounted(t, project)
	for _, dir := range []string{"below", "disk", "memory/deep"} {
		descend(t, filepath.Join(w.dir, dir), depth, dir != "below")
		descend(t, filepath.Join(w.dir, dir), depth, false)
	}
	w.remount()
	for _, dir := range []string{"below", "disk", "memory/deep"} {
		descend(t, filepath.Join(w.dir, dir), depth, false)
	}
	script(t, w.dir, "rm -rf below disk memory/deep; ls -A . memory")
}

// descend goes depth directories down from dir, making them first if create,
// and writes and reads a file at the end.
func descend(t *testing.T, dir string, depth int, create bool) {
	t.Helper()
	fd := goDown(t, dir, depth, create)
	defer unix.Close(fd)
	file, err := unix.Openat(fd, "leaf", unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatalf("%s: open of the leaf: %v", dir, err)
	}
	f := os.NewFile(uintptr(file), "leaf")
	defer f.Close()
	if _, err := fmt.Fprintln(f, "written"); err != nil {
		t.Fatalf("%s: write to the leaf: %v", dir, err)
	}
}

// goDown goes depth directories down from dir, making them first if create, and
// returns a descriptor of the last.
func goDown(t *testing.T, dir string, depth int, create bool) (fd int) {
	t.Helper()
	if create {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	component := strings.Repeat("c", 100)
	for i := range depth {
		if create {
			if err := unix.Mkdirat(fd, component, 0o755); err != nil {
				t.Fatalf("%s: mkdir at depth %d: %v", dir, i, err)
			}
		}
		next, err := unix.Openat(fd, component, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("%s: open at depth %d: %v", dir, i, err)
		}
		_ = unix.Close(fd) // of an O_PATH descriptor
		fd = next
	}
	return fd
}
