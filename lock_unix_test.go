//go:build unix

package wsfs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLockFile: a second locker is told who holds the lock, and gets it if the
// holder, killed say, lets go a moment later.
func TestLockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(path, "thing")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockFile(path, "thing")
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Fatalf("lockFile of a locked file: got %v, want ErrInUse with this process' id", err)
	}
	got := make(chan error, 1)
	go func() {
		unlock, err := lockFile(path, "thing")
		if err == nil {
			err = unlock()
		}
		got <- err
	}()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("lockFile while the holder lets go: %v", err)
	}
}
