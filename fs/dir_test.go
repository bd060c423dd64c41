//go:build linux

package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// crowd returns n seeds in the directory d and makes n more in it on the mount.
func crowd(t *testing.T, k kind, n int) *mounted {
	t.Helper()
	seeds := []seed{{"d/", 0o755, ""}}
	for i := range n {
		seeds = append(seeds, seed{fmt.Sprintf("d/lower%d", i), 0o644, ""})
	}
	m := mount(t, k.layer(t, seeds...), fs.Options{})
	for i := range n {
		must(t, os.WriteFile(m.path(fmt.Sprintf("d/upper%d", i)), nil, 0o644))
	}
	return m
}

// TestListing compares what READDIR and READDIRPLUS tell with stat.
func TestListing(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			m := crowd(t, k, 1500)
			for range 2 { // from the layer, then from the kernel's cache
				seen := make(map[uint64]string)
				for name, ino := range dirents(t, m.path("d")) {
					var st unix.Stat_t
					must(t, unix.Lstat(m.path("d/"+name), &st))
					if ino == 0 || st.Ino != ino {
						t.Errorf("d_ino of %s: got %d, want st_ino %d", name, ino, st.Ino)
					}
					if other := seen[ino]; other != "" && name != ".." {
						t.Errorf("d_ino of %s and %s: both %d", name, other, ino)
					}
					seen[ino] = name
				}
				if len(seen) != 3002 {
					t.Errorf("entries: got %d, want 3002", len(seen))
				}
			}
		})
	}
}

// dirents returns the inode numbers in the directory at path by name.
func dirents(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	found := make(map[string]uint64)
	for buf := make([]byte, 4096); ; {
		n, err := unix.Getdents(fd, buf)
		must(t, err)
		if n == 0 {
			return found
		}
		for b := buf[:n]; len(b) > 0; {
			ino, size := *(*uint64)(ptr(b)), *(*uint16)(ptr(b[16:]))
			name := unix.ByteSliceToString(b[19:size])
			if _, twice := found[name]; twice {
				t.Errorf("entry %q is listed twice", name)
			}
			found[name] = ino
			b = b[size:]
		}
	}
}

// TestRemoveWhileListing removes a large merged directory by one and by several
// that list it at the same time.
func TestRemoveWhileListing(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name+"/one", func(t *testing.T) {
			m := crowd(t, k, 1500**soak)
			must(t, os.RemoveAll(m.path("d")))
			if _, err := os.Lstat(m.path("d")); !os.IsNotExist(err) {
				t.Errorf("Lstat(d) after RemoveAll: got %v, want ENOENT", err)
			}
		})
		t.Run(k.name+"/eight", func(t *testing.T) {
			m := crowd(t, k, 400**soak)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					dir, err := os.Open(m.path("d"))
					if err != nil {
						t.Error(err)
						return
					}
					defer dir.Close()
					for {
						names, err := dir.Readdirnames(50)
						if err != nil {
							return
						}
						for _, name := range names {
							if err := os.Remove(m.path("d/" + name)); err != nil && !os.IsNotExist(err) {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			if err := os.Remove(m.path("d")); err != nil {
				t.Errorf("rmdir of what eight have emptied: %v; left: %q", err, names(t, m.path("d")))
			}
		})
	}
}

// TestListingWhileChanging has a reader that stays in the middle of a directory
// while others come, go and read it from the start: entries that stay are
// listed once.
func TestListingWhileChanging(t *testing.T) {
	m := crowd(t, kinds[0], 1000)
	slow, err := os.Open(m.path("d"))
	must(t, err)
	defer slow.Close()
	seen := make(map[string]int)
	for i := 0; ; i++ {
		batch, err := slow.Readdirnames(100)
		for _, name := range batch {
			seen[name]++
		}
		if err != nil {
			break
		}
		must(t, os.Remove(m.path(fmt.Sprintf("d/upper%d", i))))
		must(t, os.WriteFile(m.path(fmt.Sprintf("d/new%d", i)), nil, 0o644))
		if got := len(names(t, m.path("d"))); got != 2000 {
			t.Fatalf("a reader from the start: got %d names, want 2000", got)
		}
	}
	for i := range 1000 {
		if name := fmt.Sprintf("lower%d", i); seen[name] != 1 {
			t.Errorf("entry %s: listed %d times", name, seen[name])
		}
	}
}

// TestStatfs checks that df has something to show.
func TestStatfs(t *testing.T) {
	for _, k := range kinds {
		m := mount(t, k.layer(t), fs.Options{})
		var st unix.Statfs_t
		must(t, unix.Statfs(m.dir, &st))
		if st.Namelen != overlay.MaxComponent || st.Bsize < 512 || st.Blocks == 0 {
			t.Errorf("%s: got name length %d, block size %d, %d blocks", k.name, st.Namelen, st.Bsize, st.Blocks)
		}
	}
}

// TestForget checks that nodes go when the kernel forgets them, and that
// nothing else does.
func TestForget(t *testing.T) {
	m := crowd(t, kinds[0], 1000)
	must(t, filepath.WalkDir(m.dir, func(string, os.DirEntry, error) error { return nil }))
	for i := range 1000 {
		if _, err := os.Lstat(m.path(fmt.Sprintf("d/lower%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Stats().Nodes; got < 2000 {
		t.Errorf("nodes after a walk: got %d, want 2002", got)
	}
	must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
	eventually(t, "nodes are forgotten", func() bool { return m.Stats().Nodes < 100 })
	if _, err := os.Lstat(m.path("d/lower7")); err != nil {
		t.Errorf("Lstat after the kernel forgot all: %v", err)
	}
}
