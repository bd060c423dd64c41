//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBadInput: what cannot be done is refused with a message that names the
// cause, a nonzero exit code, nothing mounted and nothing made.
func TestBadInput(t *testing.T) {
	t.Parallel()
	need(t, "fuse")
	base := t.TempDir()
	put(t, base, "project/f", "f\n")
	put(t, base, "file", "f\n")
	put(t, base, "full/f", "f\n")
	if err := os.Mkdir(filepath.Join(base, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(args ...string) []string {
		return append([]string{"mount", "mnt", "--foreground", "--state", "state", "--project", "project"}, args...)
	}
	for _, c := range []struct {
		args []string
		exit int
		says []string // in stderr
	}{
		{[]string{"mount", "mnt", "--project", "project"}, 2, []string{"--foreground"}},
		{mount("--no-such-flag"), 2, []string{"no-such-flag"}},
		{[]string{"mount"}, 2, []string{"MOUNTPOINT"}},
		{[]string{"frobnicate"}, 2, []string{"frobnicate"}},
		{mount("--route", "p/", "--route", "p/=agent"), 1, []string{`"p/"`, `"p/=agent"`}},
		{mount("--route", "memory"), 1, []string{`"memory"`, `"memory/"`}},
		{mount("--route", "../up/"), 1, []string{"../up/", ".."}},
		{mount("--no-route", "nothing"), 1, []string{"nothing"}},
		{mount("--local", "a/[b"), 1, []string{"a/[b"}},
		{mount("--scope", "team"), 1, []string{"team"}},
		{mount("--store", "redis:x"), 1, []string{"redis:x"}},
		{mount("--project", "nowhere"), 1, []string{"nowhere"}},
		{mount("--project", "file"), 1, []string{"file"}},
		{[]string{"mount", "full", "--foreground", "--state", "state", "--project", "project"}, 1, []string{"full", "not empty"}},
		{[]string{"mount", "file", "--foreground", "--state", "state", "--project", "project"}, 1, []string{"file"}},
		{[]string{"mount", "no/mnt", "--foreground", "--state", "state", "--project", "project"}, 1, []string{"no/mnt"}},
		{[]string{"mount", "project/mnt", "--foreground", "--state", "state", "--project", "project"}, 1, []string{"project", "inside"}},
		{[]string{"mount", "mnt", "--foreground", "--state", "project/state", "--project", "project"}, 1, []string{"project/state"}},
		{[]string{"umount", "empty"}, 1, []string{"empty"}},
		{[]string{"umount", "nowhere"}, 1, []string{"nowhere"}},
		{[]string{"check", "nobody", "--state", "state"}, 1, []string{"nobody"}},
		{[]string{"overlay", "-o", "upperdir=a,workdir=b", "mnt"}, 2, []string{"lowerdir"}},
		{[]string{"overlay", "-o", "lowerdir=project,squash_to_root", "mnt"}, 2, []string{"squash_to_root"}},
		{[]string{"overlay", "-o", "lowerdir=nowhere", "mnt"}, 1, []string{"nowhere"}},
		{[]string{"overlay", "-o", "lowerdir=project,upperdir=empty", "mnt"}, 2, []string{"workdir"}},
	} {
		stderr, exit := runWsfs(t, base, c.args...)
		line := "wsfs " + strings.Join(c.args, " ")
		if exit != c.exit {
			t.Errorf("%s: exit code %d, want %d; stderr: %s", line, exit, c.exit, stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(stderr, s) {
				t.Errorf("%s: stderr does not name %s: %s", line, s, stderr)
			}
		}
		if strings.Contains(stderr, "goroutine ") {
			t.Errorf("%s: panicked: %s", line, stderr)
		}
		for _, p := range mountpoints(t) {
			if strings.HasPrefix(p, base) {
				t.Errorf("%s: left the mount %s", line, p)
			}
		}
		if _, err := os.Lstat(filepath.Join(base, "mnt")); err == nil {
			t.Errorf("%s: left the mountpoint it made", line)
		}
		if _, err := os.Lstat(filepath.Join(base, "project/state")); err == nil {
			t.Errorf("%s: wrote into the project", line)
		}
	}
}

// runWsfs runs the binary in dir and returns its stderr and exit code.
func runWsfs(t *testing.T, dir string, args ...string) (stderr string, exit int) {
	t.Helper()
	cmd := command(t, dir, wsfs(t), args...)
	var text strings.Builder
	cmd.Stderr = &text
	err := cmd.Run()
	var failed *osexec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// TestInUse: a second server gets neither a workspace nor a store that another
// one has, and learns who has it.
func TestInUse(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	put(t, project, "f", "f\n")
	w := mounted(t, project)
	other := filepath.Join(t.TempDir(), "mnt")
	for name, want := range map[string]string{"test": "workspace", "other": "store"} {
		stderr, exit := runWsfs(t, "", "mount", other, "--foreground", "--state", w.state, "--name", name, "--project", project)
		if exit != 1 || !strings.Contains(stderr, "in use") {
			t.Errorf("mount of workspace %s while test is mounted: exit %d, stderr %q, want 1 and that the %s is in use", name, exit, stderr, want)
		}
	}
	stderr, exit := runWsfs(t, "", "check", "test", "--state", w.state)
	if exit != 1 || !strings.Contains(stderr, "in use") {
		t.Errorf("check while mounted: exit %d, stderr %q, want 1 and in use", exit, stderr)
	}
}

// TestBusy: an unmount while a process uses the mount changes nothing and
// names the process; a lazy one does not wait.
func TestBusy(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	put(t, project, "f", "f\n")
	w := mounted(t, project)
	sleeper := command(t, w.dir, "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	stderr, exit := runWsfs(t, "", "umount", w.dir)
	if exit != 4 || !strings.Contains(stderr, "sleep") {
		t.Errorf("umount of a busy mount: exit %d, stderr %q, want 4 and the name of the process", exit, stderr)
	}
	if !slices.Contains(mountpoints(t), w.dir) {
		t.Errorf("a refused umount took the mount away")
	}
	if stderr, exit := runWsfs(t, "", "umount", "--lazy", w.dir); exit != 0 {
		t.Errorf("umount --lazy: exit %d, stderr %q", exit, stderr)
	}
	if w.isMounted() {
		t.Errorf("still mounted after umount --lazy")
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = sleeper.Wait() // killed
	if err := <-w.exited; err != nil {
		t.Errorf("wsfs mount ended with %v after the last user was gone", err)
	}
	w.server = nil
}

// TestBusyDeep: a process whose working directory is too deep for the kernel to
// name is found all the same.
func TestBusyDeep(t *testing.T) {
	t.Parallel()
	w := mounted(t, t.TempDir())
	fd := goDown(t, filepath.Join(w.dir, "deep"), 60, true)
	sleeper := command(t, fmt.Sprintf("/proc/self/fd/%d", fd), "sleep", "600")
	err := sleeper.Start()
	_ = unix.Close(fd) // of an O_PATH descriptor
	if err != nil {
		t.Fatal(err)
	}
	stderr, exit := runWsfs(t, "", "umount", w.dir)
	if exit != 4 || !strings.Contains(stderr, fmt.Sprintf("process %d (sleep): cwd", sleeper.Process.Pid)) {
		t.Errorf("umount of a mount that is busy at depth: exit %d, stderr %q, want 4 and the process", exit, stderr)
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = sleeper.Wait() // killed
	w.unmount()
}

// TestMountedTwice: a mountpoint that a wsfs serves is refused, with its process.
func TestMountedTwice(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	w := mounted(t, project)
	for name, args := range map[string][]string{
		"mount":   {"mount", w.dir, "--foreground", "--state", t.TempDir(), "--name", "other", "--project", project},
		"overlay": {"overlay", "-o", "lowerdir=" + project, w.dir},
	} {
		stderr, exit := runWsfs(t, "", args...)
		if exit != 1 || !strings.Contains(stderr, w.dir) || !strings.Contains(stderr, "in use by the wsfs of") {
			t.Errorf("%s on a mountpoint in use: exit %d, stderr %q, want 1 and that a wsfs serves it", name, exit, stderr)
		}
		if newerThan(t, 6, 16) && !strings.Contains(stderr, fmt.Sprintf("process %d;", w.server.Process.Pid)) {
			t.Errorf("%s on a mountpoint in use: stderr %q, want the process %d", name, stderr, w.server.Process.Pid)
		}
	}
}

// newerThan reports whether the kernel is of the version or a later one.
func newerThan(t *testing.T, major, minor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return a > major || a == major && b >= minor
}

// TestReadOnly: nothing can be changed, and nothing is.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	put(t, project, "d/f", "f\n")
	put(t, project, "memory/m", "m\n")
	w := mounted(t, project, "--read-only")
	before := treeOf(t, w.dir, view{times: true})
	for _, change := range []string{
		"echo x >d/f", "echo x >d/new", "rm d/f", "mv d e", "mkdir x", "ln d/f d/g", "ln -s x y", "chmod 600 d/f", "touch d/f",
		"truncate -s 0 d/f", "rmdir memory", "echo x >memory/m", "echo x >>MEMORY.md", "mkfifo p", "chown 1:1 d", "setfattr -n user.a -v b d/f",
	} {
		cmd := command(t, w.dir, "bash", "-c", change)
		cmd.Env = baseEnv(t.TempDir())
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Read-only file system") {
			t.Errorf("%s on a read-only mount: %v, %q, want EROFS", change, err, out)
		}
	}
	if d := before.diff(treeOf(t, w.dir, view{times: true})); d != "" {
		t.Errorf("the tree changed:\n%s", d)
	}
}
