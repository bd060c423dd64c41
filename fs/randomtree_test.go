//go:build linux

package fs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// randomProject is what the trees of TestRandomTree start with.
var randomProject = []seed{
	{"a/", 0o755, ""}, {"a/a", 0o644, "one"}, {"a/b/", 0o755, ""}, {"a/b/a", 0o600, "two"}, {"a/b/c/", 0o755, ""},
	{"b", 0o644, "three"}, {"c/", 0o700, ""}, {"c/a", 0o755, "four"}, {"c/d/", 0o755, ""}, {"c/d/a", 0o644, ""},
}

// TestRandomTree does random operations on a mount and on ext4: each of them,
// and the tree in the end, has to be the same.
func TestRandomTree(t *testing.T) {
	besidePlain(t, randomProject, func(t *testing.T, plain, dir string) {
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		t.Log(run(t, 0, "tree", plain, dir, now, strconv.Itoa(1500**soak)))
	})
}

// playTree does args[3] random steps, seeded with args[2], in the directories
// args[0] and args[1], and fails where they differ.
func playTree(args []string) error {
	n, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n", n)
	r := rand.New(rand.NewPCG(n, n))
	plain := player{dir: args[0], open: make(map[string]int), noDirLinks: true}
	mount := player{dir: args[1], open: make(map[string]int), noDirLinks: true}
	var past []string
	for range count {
		step := randomStep(r, &plain)
		past = append(past, step)
		want, got := plain.line(step), mount.line(step)
		if want != got {
			return fmt.Errorf("%s\ngot  %s\nwant %s", strings.Join(past[max(0, len(past)-40):], "; "), got, want)
		}
	}
	want, got := describe(args[0]), describe(args[1])
	if want != got {
		return fmt.Errorf("trees after all: got\n%s\nwant\n%s", got, want)
	}
	return nil
}

// line does a step and returns what happened in one line.
func (p *player) line(step string) string {
	w := strings.Fields(step)
	result, err := p.play(w[0], w[1:])
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case err != nil:
		return "BUG: " + err.Error()
	}
	return result
}

// randomStep returns a step that often makes sense.
func randomStep(r *rand.Rand, p *player) string {
	path := func() string {
		s := string("abcd"[r.IntN(4)])
		for r.IntN(3) > 0 && len(s) < 8 {
			s += "/" + string("abcd"[r.IntN(4)])
		}
		return s
	}
	fd := func() string { return "h" + strconv.Itoa(r.IntN(3)) }
	word := func() string { return strings.Repeat(string("xyz"[r.IntN(3)]), 1+r.IntN(20)) }
	opened := fd()
	if _, ok := p.open[opened]; ok && r.IntN(4) == 0 {
		switch r.IntN(7) {
		case 0:
			return "fread " + opened
		case 1:
			return "fwrite " + opened + " " + word()
		case 2:
			return "fstat " + opened
		case 3:
			return "fchmod " + opened + " " + strconv.FormatInt(int64(r.IntN(0o1000)), 8)
		case 4:
			return "ftrunc " + opened + " " + strconv.Itoa(r.IntN(30))
		default:
			return "close " + opened
		}
	}
	switch r.IntN(24) {
	case 0, 1, 2:
		return "create " + path() + " 0644"
	case 3, 4:
		return "mkdir " + path() + " 0755"
	case 5:
		return "symlink " + word() + " " + path()
	case 6, 7:
		return "link " + path() + " " + path()
	case 8, 9, 10, 11:
		return "rename " + path() + " " + path()
	case 12:
		return "rename2 " + path() + " " + path() + " " + strconv.Itoa(1+r.IntN(2))
	case 13:
		return "unlink " + path()
	case 14:
		return "rmdir " + path()
	case 15, 16:
		return "write " + path() + " " + word()
	case 17:
		return "overwrite " + path() + " " + word()
	case 18:
		return "chmod " + path() + " 0" + strconv.FormatInt(0o600+int64(r.IntN(0o200)), 8)
	case 19:
		return "read " + path()
	case 20:
		return "list " + path()
	case 21:
		return "stat " + path()
	case 22:
		return "trunc " + path() + " " + strconv.Itoa(r.IntN(30))
	default:
		if _, busy := p.open[opened]; busy {
			return "stat " + path()
		}
		return "open " + opened + " " + path() + " " + []string{"r", "rw", "w"}[r.IntN(3)]
	}
}

// describe returns what is in a tree.
func describe(dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if e.IsDir() {
			st.Nlink = 0
		}
		content := ""
		if e.Type().IsRegular() {
			all, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(all)
		}
		fmt.Fprintf(&b, "%s %s %q\n", strings.TrimPrefix(path, dir), statLine(&st), content)
		return nil
	})
	if err != nil {
		fmt.Fprintf(&b, "BUG: %v\n", err)
	}
	return b.String()
}
