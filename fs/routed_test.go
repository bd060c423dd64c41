//go:build linux

package fs_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// storeExceptions are plays that a store's files cannot give, with the reason.
var storeExceptions = map[string]string{}

// TestStoreFiles plays in a directory that lives in a store what has to give
// the same on ext4.
func TestStoreFiles(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	all := make(map[string][]scene)
	for name, steps := range filePlays {
		all[name] = []scene{{0, steps}}
	}
	for name, scenes := range plays {
		all[name] = scenes
	}
	for name, scenes := range all {
		if storeExceptions[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := plainDir(t)
			var template []seed
			template = append(template, seed{"memory/", 0o755, ""})
			if _, files := filePlays[name]; files {
				for _, s := range project {
					s.write(t, plain)
					s.name = "memory/" + s.name
					template = append(template, s)
				}
			}
			want := perform(t, plain, scenes)
			m := mount(t, routedTree(t, template...), fs.Options{Passthrough: true})
			if diff := cmp.Diff(want, perform(t, m.path("memory"), scenes)); diff != "" {
				t.Errorf("ext4 -, mount +\n%s", diff)
			}
		})
	}
}

// besidePlain runs fn on every kind of tree over a project, and on a directory
// of them that lives in a store. plain is one on ext4 with the same files.
func besidePlain(t *testing.T, project []seed, fn func(t *testing.T, plain, dir string)) {
	store := func(t testing.TB, project ...seed) overlay.Layer {
		below := []seed{{"memory/", 0o755, ""}}
		for _, s := range project {
			s.name = "memory/" + s.name
			below = append(below, s)
		}
		return routedTree(t, below...)
	}
	for _, k := range append([]kind{{"store", store}}, kinds...) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			plain := plainDir(t)
			for _, s := range project {
				s.write(t, plain)
			}
			m := mount(t, k.layer(t, project...), fs.Options{Passthrough: true})
			dir := m.dir
			if k.name == "store" {
				dir = m.path("memory")
			}
			fn(t, plain, dir)
		})
	}
}

// TestStorePosix runs go-fuse's suite in a directory that lives in a store.
func TestStorePosix(t *testing.T) {
	for name, fn := range posixtest.All {
		if posixExceptions[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			fn(t, mount(t, routedTree(t), fs.Options{Passthrough: true}).path("memory"))
		})
	}
}

// TestAcrossRoutes moves files between the disk and stores.
func TestAcrossRoutes(t *testing.T) {
	m := mount(t, routedTree(t, seed{"skills/", 0o755, ""}, seed{"skills/s", 0o644, "template"}), fs.Options{Passthrough: true})
	must(t, os.WriteFile(m.path("new"), []byte("one"), 0o644))
	must(t, os.Rename(m.path("new"), m.path("MEMORY.md")))
	if b, err := os.ReadFile(m.path("MEMORY.md")); string(b) != "one" || err != nil {
		t.Errorf("ReadFile(MEMORY.md) after a rename onto it: got %q, %v", b, err)
	}
	reader, err := os.Open(m.path("MEMORY.md"))
	must(t, err)
	defer reader.Close()
	for range 20 { // as an editor saves
		must(t, os.WriteFile(m.path("MEMORY.md~"), []byte("two"), 0o600))
		must(t, os.Rename(m.path("MEMORY.md~"), m.path("MEMORY.md")))
		if b, err := os.ReadFile(m.path("MEMORY.md")); string(b) != "two" || err != nil {
			t.Fatalf("ReadFile(MEMORY.md) after a second one: got %q, %v", b, err)
		}
		if fi, err := os.Stat(m.path("MEMORY.md")); err != nil || fi.Mode() != 0o600 || fi.Size() != 3 {
			t.Fatalf("Stat(MEMORY.md) after a second one: got %v, %v", fi, err)
		}
	}
	b := make([]byte, 10)
	if n, err := reader.Read(b); string(b[:n]) != "one" {
		t.Errorf("a reader of the file that was replaced: got %q, %v", b[:n], err)
	}
	must(t, os.Rename(m.path("skills/s"), m.path("s")))
	if b, err := os.ReadFile(m.path("s")); string(b) != "template" || err != nil {
		t.Errorf("ReadFile(s) moved out of a route: got %q, %v", b, err)
	}
	if got := names(t, m.path("skills")); len(got) != 0 {
		t.Errorf("what is left in skills: %q", got)
	}
	must(t, os.Mkdir(m.path("memory/d"), 0o755))
	if err := os.Rename(m.path("memory/d"), m.path("d")); err == nil || !strings.Contains(err.Error(), "cross-device") {
		t.Errorf("a directory out of a route: got %v, want EXDEV", err)
	}
	if err := os.Link(m.path("MEMORY.md"), m.path("link")); err == nil || !strings.Contains(err.Error(), "cross-device") {
		t.Errorf("a link out of a route: got %v, want EXDEV", err)
	}
	if err := os.Remove(m.path("memory")); err == nil {
		t.Error("a route's directory was removed")
	}
}

// TestLinkOfTemplate links files of a template that have several names already,
// which get other numbers in the store: each is linked once, without an error.
func TestLinkOfTemplate(t *testing.T) {
	upper, host, project := diskLayers(t, seed{"memory/", 0o755, ""}, seed{"memory/file", 0o644, "text"})
	must(t, unix.Mkfifo(project+"/memory/fifo", 0o600))
	for _, name := range []string{"file", "fifo"} {
		must(t, os.Link(project+"/memory/"+name, project+"/memory/"+name+"2"))
	}
	m := mount(t, treeOver(t, memkv.New(), upper, host), fs.Options{Passthrough: true})
	for _, name := range []string{"file", "fifo"} {
		old, linked := m.path("memory/"+name), m.path("memory/"+name+"3")
		_, err := os.Lstat(m.path("memory/" + name + "2"))
		must(t, err)
		if err := os.Link(old, linked); err != nil {
			t.Errorf("Link(%s): %v", name, err)
			continue
		}
		must(t, os.Chmod(linked, 0o640))
		a, err := os.Lstat(old)
		must(t, err)
		b, err := os.Lstat(linked)
		must(t, err)
		if !os.SameFile(a, b) || a.Mode().Perm() != 0o640 || a.Sys().(*syscall.Stat_t).Nlink != 2 {
			t.Errorf("%s after Link and a chmod of the link: got %v and %v, want one file of two names", name, a.Sys(), b.Sys())
		}
		other := m.path("memory/" + name + "2")
		if err := os.Chmod(other, 0o604); err != nil {
			t.Errorf("Chmod(%s2): %v", name, err)
		}
		c, err := os.Lstat(other)
		must(t, err)
		if os.SameFile(a, c) || c.Mode().Perm() != 0o604 {
			t.Errorf("%s2, the template's other name, after a chmod: got %v, want a file of its own", name, c.Sys())
		}
	}
}

// TestOtherDaemon has another daemon on the same store change files that the
// mount has cached.
func TestOtherDaemon(t *testing.T) {
	store := memkv.New()
	m := mount(t, treeOn(t, store), fs.Options{Passthrough: true})
	must(t, os.WriteFile(m.path("memory/f"), []byte("mine"), 0o644))
	other := storeLayer(t, store, "memory", 7)
	for i := range 100 {
		want := strings.Repeat("x", i%7) + "theirs"
		put(t, other, seed{"f", 0o644, want})
		if got, err := os.ReadFile(m.path("memory/f")); string(got) != want || err != nil {
			t.Fatalf("ReadFile after another daemon's close: got %q, %v; want %q", got, err, want)
		}
	}
	if _, err := os.Lstat(m.path("memory/new")); !os.IsNotExist(err) {
		t.Fatalf("Lstat(memory/new): got %v, want ENOENT", err)
	}
	names(t, m.path("memory"))
	put(t, other, seed{"new", 0o644, "theirs"})
	eventually(t, "the new name is seen", func() bool {
		got, err := os.ReadFile(m.path("memory/new"))
		return err == nil && string(got) == "theirs" && len(names(t, m.path("memory"))) == 2
	})
	must(t, other.Remove(t.Context(), "new"))
	eventually(t, "the removed name is gone", func() bool {
		_, err := os.Lstat(m.path("memory/new"))
		return os.IsNotExist(err)
	})
	must(t, os.WriteFile(m.path("memory/f"), []byte("mine again"), 0o644))
	h, err := other.Open(t.Context(), "f")
	must(t, err)
	defer h.Close()
	b := make([]byte, 20)
	if n, _ := h.ReadAt(b, 0); string(b[:n]) != "mine again" {
		t.Errorf("the other daemon after our close: got %q", b[:n])
	}
}
