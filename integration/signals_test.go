//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignals: a signal that a process handles interrupts no call on files, as
// on a local disk. Timers, children that end and Go's own preemption send
// them all the time, and few programs expect EINTR of mkdir or close.
func TestSignals(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for i := range 100 {
		put(t, project, fmt.Sprintf("p/%d", i), "project\n")
		put(t, project, fmt.Sprintf("skills/p/%d", i), "project\n")
	}
	w := mounted(t, project)
	for _, dir := range []string{".", "skills"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			underSignals(t, func() {
				for i := range 100 {
					if err := changeAll(filepath.Join(w.dir, dir), i); err != nil {
						t.Errorf("round %d in %s, with a signal every 100 µs: %v", i, dir, err)
						return
					}
				}
			})
		})
	}
}

// underSignals runs fn in a thread that gets signals all the time.
func underSignals(t *testing.T, fn func()) {
	t.Helper()
	tid, done := make(chan int), make(chan struct{})
	go func() {
		// A thread that ends would take the servers with it that it has started
		// (Pdeathsig), so it is given back.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		tid <- unix.Gettid()
		fn()
	}()
	thread := <-tid
	for {
		select {
		case <-done:
			return
		case <-time.After(100 * time.Microsecond):
			// SIGURG is what the Go runtime sends itself, and handles.
			if err := unix.Tgkill(os.Getpid(), thread, unix.SIGURG); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Errorf("tgkill: %v", err)
				return
			}
		}
	}
}

// changeAll does one of every change by bare system calls, which are not tried
// again after EINTR, to names of its own in dir.
func changeAll(dir string, i int) error {
	path := func(s string) string { return filepath.Join(dir, fmt.Sprintf("%s%d", s, i)) }
	call := func(name string, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	fd, err := unix.Open(path("p/"), unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return call("open", err)
	}
	_, werr := unix.Write(fd, []byte("more\n"))
	return errors.Join(
		call("write", werr), call("fsync", unix.Fsync(fd)), call("close", unix.Close(fd)),
		call("mkdir", unix.Mkdir(path("d"), 0o755)), call("symlink", unix.Symlink("x", path("l"))),
		call("chmod", unix.Chmod(path("p/"), 0o600)), call("link", unix.Link(path("p/"), path("h"))),
		call("rename", unix.Rename(path("p/"), path("r"))), call("unlink", unix.Unlink(path("h"))),
		call("rmdir", unix.Rmdir(path("d"))), call("lstat", unix.Lstat(path("l"), new(unix.Stat_t))),
	)
}
