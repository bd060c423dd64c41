//go:build linux

package integration

import (
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sequences is how many TestKernelOracle runs on each kind of mount,
	// unless WSFS_SEQUENCES says otherwise; WSFS_SEED is the first one's seed.
	sequences = 12
	// operations is how long a sequence is.
	operations = 120
)

// TestKernelOracle does the same random operations on a mount and on the
// kernel's overlayfs over the same lower directory: each has to give the same
// result, and the trees have to stay alike. A new mount shows the same again,
// and so does the kernel when it mounts the upper that wsfs wrote.
//
// A sequence that fails is made as short as it can be, and printed with its
// seed.
func TestKernelOracle(t *testing.T) {
	t.Parallel()
	need(t, "fuse", "root")
	count, first := number(t, "WSFS_SEQUENCES", sequences), number(t, "WSFS_SEED", 1)
	for name, start := range map[string]starter{"overlay": startPlain, "mount": startWorkspace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := first; seed < first+count; seed++ {
				s := drawSequence(uint64(seed))
				if problem := s.run(t, start); problem != "" {
					s, problem = s.shrink(t, start, problem)
					t.Fatalf("WSFS_SEED=%d WSFS_SEQUENCES=1, shortened to\n%s\n%s", seed, s, problem)
				}
			}
		})
	}
}

// number returns the number in the environment's variable, or otherwise.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// A sequence is a lower directory, by the operations that make it, and what is
// done on the mounts over it.
type sequence struct{ lower, ops []operation }

func drawSequence(seed uint64) (s sequence) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		o := drawOperation(rnd)
		// Hard links of the lower have exceptions; half of the runs have none.
		if seed%2 == 0 || operationKinds[o.kind].name != "link" {
			s.lower = append(s.lower, o)
		}
	}
	for range operations {
		s.ops = append(s.ops, drawOperation(rnd))
	}
	return s
}

func (s sequence) String() string {
	var b strings.Builder
	for _, o := range s.lower {
		fmt.Fprintf(&b, "\tlower: %v\n", o)
	}
	for _, o := range s.ops {
		fmt.Fprintf(&b, "\t%v\n", o)
	}
	return b.String()
}

// shrink leaves out of a sequence that has problem what it can do without and
// still has one.
func (s sequence) shrink(t *testing.T, start starter, problem string) (sequence, string) {
	t.Helper()
	without := func(all []operation, i, n int) []operation {
		return slices.Delete(slices.Clone(all), i, min(i+n, len(all)))
	}
	deadline := time.Now().Add(patience)
	for n := operations; n > 0; n /= 2 {
		for i := 0; i < len(s.lower)+len(s.ops) && time.Now().Before(deadline); {
			shorter := s
			if i < len(s.ops) {
				shorter.ops = without(s.ops, i, n)
			} else {
				shorter.lower = without(s.lower, i-len(s.ops), n)
			}
			if p := shorter.run(t, start); p != "" {
				s, problem = shorter, p
			} else {
				i += n
			}
		}
	}
	return s, problem
}

// A starter mounts wsfs over the directory lower, with its own files in base.
// It returns the mountpoint, the upper directory, and what unmounts: in the end
// all is on disk.
type starter func(t *testing.T, lower, base string) (dir, upper string, unmount func())

// startPlain mounts with wsfs overlay.
func startPlain(t *testing.T, lower, base string) (dir, upper string, unmount func()) {
	t.Helper()
	l := layers{lower1: lower, upper: filepath.Join(base, "up"), work: filepath.Join(base, "wk"), mnt: filepath.Join(base, "mnt")}
	for _, d := range []string{l.upper, l.work, l.mnt} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + lower + ",upperdir=" + l.upper + ",workdir=" + l.work
	if stderr, exit := runWsfs(t, "", "overlay", "-o", options, l.mnt); exit != 0 {
		t.Fatalf("wsfs overlay: exit %d, %s", exit, stderr)
	}
	return l.mnt, l.upper, func() {
		if stderr, exit := runWsfs(t, "", "umount", l.mnt); exit != 0 {
			t.Fatalf("wsfs umount: exit %d, %s", exit, stderr)
		}
		waitUnlocked(t, filepath.Join(l.work, "lock"))
	}
}

// waitUnlocked waits for the process that has the lock path to end.
func waitUnlocked(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// startWorkspace mounts with wsfs mount.
func startWorkspace(t *testing.T, lower, base string) (dir, upper string, unmount func()) {
	t.Helper()
	w := newWorkspace(t, lower)
	w.state = filepath.Join(base, "state")
	w.mount()
	return w.dir, filepath.Join(w.state, "workspaces/test/layers/1"), w.unmount
}

// run does the sequence on the kernel's overlayfs and on wsfs, and returns in
// what they differ, "" if in nothing.
func (s sequence) run(t *testing.T, start starter) (problem string) {
	t.Helper()
	base, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	lower := makeLower(t, filepath.Join(base, "lower"), s.lower)
	before := treeOf(t, lower, everything)
	kernel := newObserved(mountKernel(t, base, "redirect_dir=on,index=on,metacopy=off,lowerdir="+lower, true))
	dir, upper, unmount := start(t, lower, base)
	ours := newObserved(dir)
	kernel.noteLinked(t)
	ours.noteLinked(t)

	for i, o := range s.ops {
		want, got := kernel.do(o), ours.do(o)
		if got != want {
			problem = fmt.Sprintf("%v: wsfs gives %q, the kernel's overlayfs %q", o, got, want)
			break
		}
		if want == "ENOTEMPTY" {
			// The kernel copies up before it looks, which changes the times of
			// the directories; wsfs changes nothing.
			kernel.touchAround(o)
			ours.touchAround(o)
		}
		if i%20 == 19 || i == len(s.ops)-1 {
			if d := kernel.look(t).diff(ours.look(t)); d != "" {
				problem = fmt.Sprintf("after operation %d wsfs (got) and the kernel's overlayfs (want) show different trees:\n%s", i, d)
				break
			}
		}
	}
	for _, o := range []*observed{kernel, ours} {
		if err := o.release(); err != nil {
			t.Errorf("close of the file held: %v", err)
		}
	}
	shown := ours.look(t)
	ours.exact = true
	last := ours.look(t)
	unmount()
	unmountKernel(t, kernel.dir)
	if problem != "" {
		return problem
	}

	dir, upper, unmount = start(t, lower, base)
	ours.dir = dir
	ours.exact = false
	d := shown.diff(ours.look(t))
	unmount()
	if d != "" {
		return fmt.Sprintf("wsfs mounted anew (got) shows another tree than before (want):\n%s", d)
	}
	ours.dir, ours.exact = mountKernel(t, base, "redirect_dir=follow,lowerdir="+upper+":"+lower, false), true
	d = last.diff(ours.bare(t, last))
	unmountKernel(t, ours.dir)
	if d != "" {
		return fmt.Sprintf("the kernel's overlayfs (got) shows another tree of what wsfs (want) wrote:\n%s", d)
	}
	if d := before.diff(treeOf(t, lower, everything)); d != "" {
		return "the lower directory changed:\n" + d
	}
	return ""
}

// makeLower makes a directory by operations; all its files are old.
func makeLower(t *testing.T, dir string, ops []operation) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := site{dir, -1}
	for _, o := range ops {
		s.do(o) // it may fail
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	err := filepath.WalkDir(dir, func(path string, _ iofs.DirEntry, err error) error {
		n++
		if err != nil {
			return err
		}
		return setTime(path, past(n))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// mountKernel mounts the kernel's overlayfs with options, with an upper of its
// own if writable, and returns where.
func mountKernel(t *testing.T, base, options string, writable bool) string {
	t.Helper()
	at, err := os.MkdirTemp(base, "kernel-")
	if err != nil {
		t.Fatal(err)
	}
	mnt, flags := filepath.Join(at, "mnt"), uintptr(unix.MS_RDONLY)
	dirs := []string{mnt}
	if writable {
		up, work := filepath.Join(at, "up"), filepath.Join(at, "work")
		dirs = append(dirs, up, work)
		options += ",upperdir=" + up + ",workdir=" + work
		flags = 0
	}
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", mnt, "overlay", flags, options); err != nil {
		t.Fatalf("overlay mount by the kernel, %s: %v", options, err)
	}
	return mnt
}

// unmountKernel detaches, since a child of another test that is not yet past its
// exec may have a file open for a moment.
func unmountKernel(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Errorf("unmount of %s: %v", dir, err)
	}
}

// An observed site is one whose tree is compared.
type observed struct {
	site
	linked map[uint64]bool // inode numbers of lower files with several names
	exact  bool            // times count, also those of what the sequence changed
}

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
// file. The link count of a lower file with several names is left out: the
// kernel's falls with each name that goes, which takes a copy-up; wsfs' falls
// with those of copies only (docs/POSIX.md).
func (o *observed) look(t *testing.T) tree {
	t.Helper()
	all, first := make(tree), make(map[uint64]string)
	o.walk(t, func(name string, st *unix.Stat_t) {
		line, err := describe(o.path(name), view{anyLinks: true})
		if err != nil {
			t.Errorf("%v", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			if !o.linked[st.Ino] {
				line += fmt.Sprintf(" nlink %d", st.Nlink)
			}
			line += " same as " + first[st.Ino]
		}
		all[name] = line + o.time(st)
	})
	return all
}

// time describes the modification time. What the sequence changed has another
// one on each site.
func (o *observed) time(st *unix.Stat_t) string {
	if at := time.Unix(st.Mtim.Unix()); o.exact || at.Before(past(1_000_000)) {
		return fmt.Sprint(" mtime ", at.UnixNano())
	}
	return " mtime now"
}

// touchAround sets the times of the directories that o is about.
func (o *observed) touchAround(op operation) {
	for _, name := range []string{op.a, op.b} {
		_ = setTime(filepath.Dir(o.path(name)), past(0)) // it may not be there
	}
}

// bare is look where the kernel shows an upper without wsfs' index of lower
// files with several names: of those, which last has, only the names count.
func (o *observed) bare(t *testing.T, last tree) tree {
	t.Helper()
	got := o.look(t)
	for name, line := range last {
		if _, ok := got[name]; ok && !strings.Contains(line, " nlink ") && strings.Contains(line, " same as ") {
			got[name] = line
		}
	}
	return got
}
