package badgerkv_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// wantLocked fails the test unless opening dir is refused in the name of pid.
func wantLocked(t *testing.T, dir string, pid int) {
	t.Helper()
	_, err := badgerkv.Open(dir, options())
	locked, ok := errors.AsType[*badgerkv.LockedError](err)
	if !ok || !errors.Is(err, kvstore.ErrLocked) || locked.PID != pid || locked.Dir != dir {
		t.Fatalf("Open of a store in use: got %v, want a LockedError that names process %d", err, pid)
	}
}

func TestHolderInThisProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	wantLocked(t, dir, os.Getpid())
	if err := s.Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
}

// TestHolderKilled has another process hold the store and die of kill -9.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, "hold", dir)
	if got := c.line(); got != "open" {
		t.Fatalf("child: got %q, want open", got)
	}
	wantLocked(t, dir, c.cmd.Process.Pid)
	c.kill()
	if err := open(t, dir).Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
}

// TestHolderWhileStarting opens and closes a store while processes are being
// started, which for a moment have copies of this one's descriptors.
func TestHolderWhileStarting(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var starting sync.WaitGroup
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := osexec.Command("true").Run(); err != nil {
						t.Errorf("true: %v", err)
					}
				}
			}
		})
	}
	dir := t.TempDir()
	for range 20 {
		if err := open(t, dir).Close(); err != nil {
			t.Fatalf("Close: got %v, want nil", err)
		}
	}
	close(stop)
	starting.Wait()
}

// TestHolderRace has many open at once: one at a time gets the store.
func TestHolderRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var holders, opened atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for opened.Load() < 8 {
				s, err := badgerkv.Open(dir, options())
				if errors.Is(err, kvstore.ErrLocked) {
					continue
				}
				if err != nil {
					t.Errorf("Open: got %v, want nil or ErrLocked", err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the store at once", n)
				}
				opened.Add(1)
				holders.Add(-1)
				if err := s.Close(); err != nil {
					t.Errorf("Close: got %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestOpenRefused opens directories that cannot be a store: the error names the
// place and the reason.
func TestOpenRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/store", "/dev/null"} {
		_, err := badgerkv.Open(dir, options())
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open(%s): got %v, want an error that names it", dir, err)
		}
	}
}
