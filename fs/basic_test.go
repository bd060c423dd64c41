//go:build linux

package fs_test

import (
	"os"
	"slices"
	"testing"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

func TestTree(t *testing.T) {
	lower := memlayer.New(memlayer.Options{Source: overlay.Host})
	m := mount(t, overlay.New(memlayer.New(memlayer.Options{}), lower), fs.Options{})
	must(t, os.WriteFile(m.path("a"), []byte("hello"), 0o644))
	if b, err := os.ReadFile(m.path("a")); string(b) != "hello" || err != nil {
		t.Errorf("ReadFile(a): got %q, %v", b, err)
	}
	must(t, os.Mkdir(m.path("d"), 0o755))
	must(t, os.Rename(m.path("a"), m.path("d/b")))
	if b, err := os.ReadFile(m.path("d/b")); string(b) != "hello" || err != nil {
		t.Errorf("ReadFile(d/b) after Rename: got %q, %v", b, err)
	}
	if _, err := os.Lstat(m.path("a")); !os.IsNotExist(err) {
		t.Errorf("Lstat(a) after Rename: got %v, want ENOENT", err)
	}
	must(t, os.Symlink("b", m.path("d/l")))
	if got := names(t, m.path("d")); !slices.Equal(got, []string{"b", "l"}) {
		t.Errorf("ReadDir(d): got %q", got)
	}
	must(t, os.RemoveAll(m.path("d")))
	if got := names(t, m.dir); len(got) != 0 {
		t.Errorf("ReadDir of the root after RemoveAll: got %q", got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
