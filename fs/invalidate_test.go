//go:build linux

package fs_test

import (
	"os"
	"testing"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// TestInvalidate changes a tree behind the mount's back and tells it.
func TestInvalidate(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			tree := k.layer(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "old"}, seed{"d/gone", 0o644, ""})
			m := mount(t, tree, fs.Options{Passthrough: true})
			must(t, os.WriteFile(m.path("d/mine"), []byte("mine"), 0o644))
			reader, err := os.Open(m.path("d/mine"))
			must(t, err)
			defer reader.Close()
			for _, name := range []string{"f", "mine", "new"} {
				os.ReadFile(m.path("d/" + name))
			}
			names(t, m.path("d"))

			for _, name := range []string{"d/f", "d/new"} {
				put(t, tree, seed{name, 0o644, "changed"})
			}
			must(t, tree.Remove(t.Context(), "d/mine"))
			must(t, tree.Remove(t.Context(), "d/gone"))
			put(t, tree, seed{"d/mine", 0o644, "theirs"})
			for _, name := range []overlay.Name{"d/f", "d/new", "d/mine", "d/gone"} {
				m.Invalidate(name)
			}

			for name, want := range map[string]string{"d/f": "changed", "d/new": "changed", "d/mine": "theirs"} {
				if got, err := os.ReadFile(m.path(name)); string(got) != want || err != nil {
					t.Errorf("ReadFile(%s): got %q, %v; want %q", name, got, err, want)
				}
			}
			if _, err := os.Lstat(m.path("d/gone")); !os.IsNotExist(err) {
				t.Errorf("Lstat of a removed file: got %v, want ENOENT", err)
			}
			if got := names(t, m.path("d")); len(got) != 3 {
				t.Errorf("the listing: got %q, want f, mine, new", got)
			}
			b := make([]byte, 10)
			if n, err := reader.ReadAt(b, 0); string(b[:n]) != "mine" {
				t.Errorf("a reader of the removed file: got %q, %v", b[:n], err)
			}
			put(t, tree, seed{"d/late", 0o644, ""})
			m.Invalidate(overlay.Root)
			if got := names(t, m.path("d")); len(got) != 4 {
				t.Errorf("the listing after all was invalidated: got %q", got)
			}
		})
	}
}
