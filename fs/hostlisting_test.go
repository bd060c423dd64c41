//go:build linux

package fs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wsfs/wsfs/fs"
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
