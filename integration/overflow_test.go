//go:build linux

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overflows is how many rounds TestQueueOverflow makes, unless WSFS_OVERFLOWS
// says otherwise.
const overflows = 4

const queueLimit = "/proc/sys/fs/inotify/max_queued_events"

// TestQueueOverflow has the kernel's queue of host events overflow, time and
// again: while the server is stopped, and by edits faster than it reads. Soon
// after, everything shows as it is on the host.
func TestQueueOverflow(t *testing.T) {
	t.Parallel()
	need(t, "fuse", "root")
	project := t.TempDir()
	var files []string
	for i := range 300 {
		files = append(files, fmt.Sprintf("d%d/f%d", i%15, i))
		put(t, project, files[i], "first\n")
	}
	w := newWorkspace(t, project)
	withShortQueue(t, func() {
		w.mount()
		showsHost(t, w, project) // now all of it is watched
		waitFor(t, "the server watches", func() bool { return hasInotify(t, w.server.Process.Pid) })
	})
	rnd := rand.New(rand.NewPCG(11, 11))
	for round := range number(t, "WSFS_OVERFLOWS", overflows) {
		if round%2 == 0 {
			pause(t, w.server.Process.Pid)
		}
		host := site{project, -1}
		for range 3000 {
			host.do(drawOperation(rnd)) // it may fail
		}
		for _, name := range files {
			if rnd.IntN(3) > 0 {
				editOnHost(t, rnd, filepath.Join(project, name), []byte(strings.Repeat("edited\n", rnd.IntN(300))))
			}
		}
		if err := host.release(); err != nil {
			t.Fatal(err)
		}
		if err := w.server.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		showsHost(t, w, project)
	}
	before := treeOf(t, project, everything)
	w.unmount()
	w.check()
	if d := before.diff(treeOf(t, project, everything)); d != "" {
		t.Errorf("the project changed:\n%s", d)
	}
}

// showsHost waits until the mount shows the project, of which nothing is in the
// workspace.
func showsHost(t *testing.T, w *workspace, project string) {
	t.Helper()
	began := time.Now()
	want := treeOf(t, project, view{times: true})
	delete(want, ".") // the workspace's own
	for {
		got, err := readTree(w.dir, view{times: true, skip: append([]string{"agents"}, routedDirs...)})
		delete(got, ".")
		d := want.diff(got)
		if err == nil && d == "" {
			t.Logf("%d files shown after %v", len(want), time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("30 s after the host's edits: %v; the host (want) and the mount (got) differ:\n%s", err, d)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// withShortQueue calls fn while new inotify instances hold few events. The limit
// is the machine's, so that is not for long.
func withShortQueue(t *testing.T, fn func()) {
	t.Helper()
	old, err := os.ReadFile(queueLimit)
	if err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := os.WriteFile(queueLimit, old, 0); err != nil {
			t.Errorf("%s not restored to %s: %v", queueLimit, old, err)
		}
	}
	if err := os.WriteFile(queueLimit, []byte("16"), 0); err != nil {
		t.Fatal(err)
	}
	defer restore()
	fn()
}

// hasInotify reports whether the process pid has an inotify instance.
func hasInotify(t *testing.T, pid int) bool {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.Contains(target, "inotify") {
			return true
		}
	}
	return false
}

// pause stops the process pid and waits until it stands.
func pause(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the server stands", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err == nil && strings.Contains(string(status), "State:\tT")
	})
}

// waitFor waits until is returns true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 30 s: %s", what)
		}
	}
}
