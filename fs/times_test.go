//go:build linux

package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// timesProject is what the plays of times find.
var timesProject = []seed{
	{"f", 0o644, "content"}, {"g", 0o644, ""}, {"d/", 0o755, ""}, {"d/f", 0o644, "below"}, {"d/s/", 0o755, ""}, {"e/", 0o755, ""},
}

// timesPlays are steps of which each moves some files' times.
var timesPlays = map[string]string{
	"new names":  "create a 0644; mkdir d/a 0755; symlink x e/a; fifo b 0644; device d/s/a 259; link f e/f; link a d/b; create a 0644; mkdir d 0755; symlink x f; link f a; link none x; create none/x 0644",
	"removed":    "link f h; unlink f; unlink h; unlink d/f; rmdir d/s; create e/a 0644; unlink e/a; mkdir e/a 0755; rmdir e/a; rmdir d; create d 0644; unlink none; unlink e; rmdir f; create e/b 0644; rmdir e",
	"moved":      "rename f h; rename d/f d/g; rename d/g e/g; rename d/s e/s; rename h g; rename e d/e; rename2 d/e/g g 2; rename2 d g 2; rename g/e x; rename none y; rename x x/y; rename x d; rename2 x g 1; link d h; rename h d",
	"attributes": "chmod f 0600; chown f 1 1; chown d/f -1 2; chmod d 0700; chown d 3 -1; utimes f 1 2; utimes e 3000000000000000000 5000000000000000000; utimes d/f 7 -7; touch g; touch e; setx f user.a 1; setx f user.a 2; rmx f user.a; rmx f user.a; setx d user.b 1; acl g access u::rw-,u:1001:r--,g::r--,m::r--,o::r--; acl e default u::rwx,g::r-x,o::r-x; chmod none 0600",
	"content":    "write f more; trunc f 3; trunc f 3; overwrite g new; overwrite g new; trunc g 0; trunc g 0; fallocate d/f 100; open a f rw; fwrite a x; ftrunc a 1; fchmod a 0640; fsync a; close a; trunc d 0; trunc none 0",
	"looked at":  "stat f; read f; list d; list .; readlink f; access d/f 4; getx f user.none; listx f; open a f r; fread a; fstat a; close a; open b d/s path; close b",
}

// TestTimes checks which files' change and modification times each call moves:
// those that it moves on ext4.
func TestTimes(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	for name, steps := range timesPlays {
		t.Run(name, func(t *testing.T) {
			args := strings.Split(steps, "; ")
			besidePlain(t, timesProject, func(t *testing.T, plain, dir string) {
				want := strings.Split(run(t, 0, "times", append([]string{plain}, args...)...), "\n")
				got := strings.Split(run(t, 0, "times", append([]string{dir}, args...)...), "\n")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("ext4 -, mount +\n%s", diff)
				}
			})
		})
	}
}

// playTimes does the steps args[1:] in the directory args[0] and prints what
// each of them gave and whose times it moved.
func playTimes(args []string) error {
	p := player{dir: args[0], open: make(map[string]int), noDirLinks: true}
	for _, step := range args[1:] {
		before, err := timesBelow(p.dir)
		if err != nil {
			return err
		}
		if err := tick(); err != nil {
			return err
		}
		result := p.line(step)
		after, err := timesBelow(p.dir)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s;%s\n", step, result, moved(step, before, after))
	}
	return nil
}

// tick waits for the clock of file times to move.
func tick() error {
	var start, now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &start)
	for now = start; err == nil && now == start; {
		err = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now)
	}
	return err
}

// timesBelow returns the attributes of all files of a tree by their names.
func timesBelow(dir string) (map[string]unix.Stat_t, error) {
	all := make(map[string]unix.Stat_t)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		all["."+strings.TrimPrefix(path, dir)] = st
		return err
	})
	return all, err
}

// moved names the files whose change time (c) or modification time (m) is
// another than before the step. A file that was renamed is the same file.
//
// The change time alone of a directory that the step does not name is left out:
// it moves when a file in there is copied up.
func moved(step string, before, after map[string]unix.Stat_t) string {
	known := make(map[uint64]unix.Stat_t)
	for _, st := range before {
		known[st.Ino] = st
	}
	var lines []string
	for name, st := range after {
		old, ok := known[st.Ino]
		changed, modified := old.Ctim != st.Ctim, old.Mtim != st.Mtim
		mark := "cm"
		switch {
		case !ok:
			mark = "new"
		case !changed && !modified:
			continue
		case !changed:
			mark = "m"
		case !modified:
			mark = "c"
			if st.Mode&unix.S_IFMT == unix.S_IFDIR && !slices.Contains(strings.Fields(step), strings.TrimPrefix(name, "./")) {
				continue
			}
		}
		lines = append(lines, " "+name+" "+mark)
	}
	slices.Sort(lines)
	return strings.Join(lines, ",")
}
