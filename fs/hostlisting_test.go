//go:build linux

package fs_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// TestListingsFollowTheHost has others list a directory all the time while it
// changes behind the mount: a listing that the kernel puts together meanwhile
// must not stay. The directory's time stamps do not tell.
func TestListingsFollowTheHost(t *testing.T) {
	for _, c := range []struct {
		name    string
		merged  bool
		watches int
		rounds  int
	}{
		{"watched", false, 0, 60},
		{"merged", true, 0, 60},
		{"unwatched", false, -1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			listingsFollowTheHost(t, c.merged, c.watches, c.rounds**soak)
		})
	}
}

func listingsFollowTheHost(t *testing.T, merged bool, watches, rounds int) {
	seeds := []seed{{"d/", 0o755, ""}}
	want := map[string]bool{}
	for i := range 400 {
		name := fmt.Sprintf("a_name_of_some_length_%d", i)
		seeds = append(seeds, seed{"d/" + name, 0o644, ""})
		want[name] = true
	}
	tree, dir := diskTree(t, seeds...)
	m := mount(t, tree, fs.Options{Watches: watches})
	if merged {
		must(t, os.WriteFile(m.path("d/mine"), nil, 0o644))
		want["mine"] = true
	}
	fi, err := os.Stat(filepath.Join(dir, "d"))
	must(t, err)
	defer listAllTheTime(m.path("d"), 3)()
	for round := range rounds {
		name := fmt.Sprintf("new_%d", round/2)
		if round%2 == 0 {
			must(t, os.WriteFile(filepath.Join(dir, "d", name), nil, 0o644))
			want[name] = true
		} else {
			must(t, os.Remove(filepath.Join(dir, "d", name)))
			delete(want, name)
		}
		must(t, os.Chtimes(filepath.Join(dir, "d"), fi.ModTime(), fi.ModTime()))
		all := slices.Sorted(maps.Keys(want))
		// It may be right and then wrong once more, until the event has come.
		eventually(t, fmt.Sprintf("round %d: the listing stays right", round), func() bool {
			for range 5 {
				if !slices.Equal(names(t, m.path("d")), all) {
					return false
				}
				time.Sleep(time.Millisecond)
			}
			return true
		})
	}
}

// TestListingChangesKeepOpenDirectories has names come and go beside an open
// directory: it stays where it is. No name is special, also not one that we once
// used ourselves to have listings dropped.
func TestListingChangesKeepOpenDirectories(t *testing.T) {
	for _, name := range []string{"plain", ".wsfs-fence"} {
		tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/" + name + "/", 0o755, ""})
		m := mount(t, tree, fs.Options{})
		fd, err := unix.Open(m.path("d/"+name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		names(t, m.path("d"))
		must(t, os.WriteFile(filepath.Join(dir, "d/new"), nil, 0o644))
		// Not by a listing, which would put an entry that was dropped back.
		time.Sleep(100 * time.Millisecond)
		eventually(t, "the new name is seen", func() bool {
			var st unix.Stat_t
			return unix.Lstat(m.path("d/new"), &st) == nil
		})
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || link != m.path("d/"+name) {
			t.Errorf("an open directory after changes beside it: got %q, %v", link, err)
		}
	}
}

// reads is a layer that counts how often directories are read.
type reads struct {
	overlay.Layer
	n atomic.Int64
}

func (l *reads) Unwrap() any { return l.Layer }

func (l *reads) ReadDir(ctx context.Context, name overlay.Name) ([]overlay.Entry, error) {
	l.n.Add(1)
	return l.Layer.ReadDir(ctx, name)
}

// TestListingIsNotReadAgain has a reader go through a directory in small steps
// while names come on the host: a step must not cost what the whole does.
func TestListingIsNotReadAgain(t *testing.T) {
	seeds := []seed{{"d/", 0o755, ""}}
	for i := range 2000 {
		seeds = append(seeds, seed{fmt.Sprintf("d/a_name_of_some_length_%d", i), 0o644, ""})
	}
	tree, dir := diskTree(t, seeds...)
	counted := &reads{Layer: tree}
	m := mount(t, counted, fs.Options{})
	d, err := os.Open(m.path("d"))
	must(t, err)
	defer d.Close()
	found := 0
	for step := 0; ; step++ {
		some, err := d.Readdirnames(100)
		if found += len(some); err != nil {
			break
		}
		if _, err := os.Lstat(m.path(fmt.Sprintf("d/new_%d", step))); !os.IsNotExist(err) {
			t.Fatalf("new_%d before it is made: %v", step, err)
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("d/new_%d", step)), nil, 0o644))
		eventually(t, "the new name is seen", func() bool {
			_, err := os.Lstat(m.path(fmt.Sprintf("d/new_%d", step)))
			return err == nil
		})
	}
	if found < 2000 {
		t.Errorf("names: got %d, want 2000 at least", found)
	}
	if got := counted.n.Load(); got != 1 {
		t.Errorf("the directory was read %d times, want once", got)
	}
}

// listAllTheTime has n readers list the directory at path until stop is called.
func listAllTheTime(path string, n int) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					os.ReadDir(path)
				}
			}
		})
	}
	return func() { close(end); wg.Wait() }
}
