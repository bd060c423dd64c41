//go:build linux

package integration

import (
	"errors"
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
	r := &trial{t: t, start: start, base: base, lower: makeLower(t, filepath.Join(base, "lower"), s.lower)}
	before := treeOf(t, r.lower, everything)
	r.kernel = newObserved(mountKernel(t, base, "redirect_dir=on,index=on,metacopy=off,lowerdir="+r.lower, true))
	r.ours = newObserved("")
	r.mount()
	r.kernel.noteLinked(t)
	r.ours.noteLinked(t)

	problem = r.operate(s.ops)
	r.release()
	unmountKernel(t, r.kernel.dir)
	if problem == "" {
		problem = r.mountedAnew()
	}
	shown := r.ours.lookExactly(t)
	r.unmount()
	if problem == "" {
		problem = r.shownByKernel(shown)
	}
	if d := before.diff(treeOf(t, r.lower, everything)); problem == "" && d != "" {
		problem = "the lower directory changed:\n" + d
	}
	return problem
}

// A trial is a sequence that runs.
type trial struct {
	t            *testing.T
	start        starter
	base, lower  string
	kernel, ours *observed
	upper        string // of ours
	unmount      func() // ours
}

// mount mounts ours, again if it was mounted before.
func (r *trial) mount() {
	r.t.Helper()
	r.ours.dir, r.upper, r.unmount = r.start(r.t, r.lower, r.base)
}

// release closes what is held.
func (r *trial) release() {
	r.t.Helper()
	if err := errors.Join(r.kernel.release(), r.ours.release()); err != nil {
		r.t.Errorf("close of the file held: %v", err)
	}
}

// operate does ops on both, with ours mounted anew half-way.
func (r *trial) operate(ops []operation) (problem string) {
	r.t.Helper()
	for i, o := range ops {
		if i == operations/2 {
			r.release()
			r.unmount()
			r.mount()
		}
		want, got := r.kernel.do(o), r.ours.do(o)
		if got != want {
			return fmt.Sprintf("%v: wsfs gives %q, the kernel's overlayfs %q", o, got, want)
		}
		if want == "ENOTEMPTY" {
			// The kernel copies up before it looks, which changes the times of
			// the directories; wsfs changes nothing.
			r.kernel.touchAround(o)
			r.ours.touchAround(o)
		}
		if i%20 != 19 && i != len(ops)-1 {
			continue
		}
		if d := r.kernel.look(r.t).diff(r.ours.look(r.t)); d != "" {
			return fmt.Sprintf("after operation %d wsfs (got) and the kernel's overlayfs (want) show different trees:\n%s", i, d)
		}
	}
	return ""
}

// mountedAnew mounts ours anew, which has to show the same.
func (r *trial) mountedAnew() (problem string) {
	r.t.Helper()
	shown := r.ours.lookExactly(r.t)
	r.unmount()
	r.mount()
	if d := shown.diff(r.ours.lookExactly(r.t)); d != "" {
		return "wsfs mounted anew (got) shows another tree than before (want):\n" + d
	}
	return ""
}

// shownByKernel has the kernel mount our upper, which has to show what was shown.
// Without wsfs' index, it shows those names of lower files with several that
// were not copied up as they are in the lower: of these, only the names count.
func (r *trial) shownByKernel(shown tree) (problem string) {
	r.t.Helper()
	view := newObserved(mountKernel(r.t, r.base, "redirect_dir=follow,lowerdir="+r.upper+":"+r.lower, false))
	got := view.lookExactly(r.t)
	unmountKernel(r.t, view.dir)
	for name, line := range shown {
		if _, ok := got[name]; ok && strings.HasSuffix(line, linkedMark) {
			got[name] = line
		}
	}
	if d := shown.diff(got); d != "" {
		return "the kernel's overlayfs (got) shows another tree of what wsfs (want) wrote:\n" + d
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
