//go:build linux

package integration

import (
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An observed site is one whose tree is compared.
type observed struct {
	site
	linked map[uint64]bool // inode numbers of lower files with several names
}

// linkedMark ends the lines of such files.
const linkedMark = " of several in the lower"

func newObserved(dir string) *observed {
	return &observed{site: site{dir, -1}, linked: make(map[uint64]bool)}
}

// noteLinked finds the lower files with several names, while all of the tree is
// lower files.
func (o *observed) noteLinked(t *testing.T) {
	t.Helper()
	o.walk(t, func(_ string, st *unix.Stat_t) {
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			o.linked[st.Ino] = true
		}
	})
}

// walk calls fn for each file of the tree but the root, sorted by path, and
// leaves out the directories of routes.
func (o *observed) walk(t *testing.T, fn func(name string, st *unix.Stat_t)) {
	t.Helper()
	err := filepath.WalkDir(o.dir, func(path string, _ iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(o.dir, path)
		if err != nil || name == "." {
			return err
		}
		if len(name) > 1 && !strings.Contains(name, "/") { // of no operation
			return iofs.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("lstat %s: %w", path, err)
		}
		fn(name, &st)
		return nil
	})
	if err != nil {
		t.Errorf("walk through %s: %v", o.dir, err)
	}
}

// look returns the tree: a line for each name with type, mode, owner, size,
// content, target, attributes, time, link count and the first name of the same
// file. Times of what the sequence changed are only told to be new. The link
// count of a lower file with several names is left out: the kernel's falls with
// each name that goes, which takes a copy-up; wsfs' falls with those of copies
// only (docs/POSIX.md).
func (o *observed) look(t *testing.T) tree {
	t.Helper()
	return o.describe(t, func(at time.Time) string {
		if at.Before(past(1_000_000)) {
			return at.String()
		}
		return "new"
	})
}

// lookExactly is look with all times.
func (o *observed) lookExactly(t *testing.T) tree {
	t.Helper()
	return o.describe(t, time.Time.String)
}

func (o *observed) describe(t *testing.T, mtime func(time.Time) string) tree {
	t.Helper()
	all, first := make(tree), make(map[uint64]string)
	o.walk(t, func(name string, st *unix.Stat_t) {
		line, err := describe(o.path(name), view{anyLinks: true})
		if err != nil {
			t.Errorf("%v", err)
		}
		line += " mtime " + mtime(time.Unix(st.Mtim.Unix()))
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			line += " same as " + first[st.Ino]
			if o.linked[st.Ino] {
				line += linkedMark
			} else {
				line += fmt.Sprintf(" nlink %d", st.Nlink)
			}
		}
		all[name] = line
	})
	return all
}

// touchAround sets the times of the directories that o is about.
func (o *observed) touchAround(op operation) {
	for _, name := range []string{op.a, op.b} {
		_ = setTime(filepath.Dir(o.path(name)), past(0)) // it may not be there
	}
}
