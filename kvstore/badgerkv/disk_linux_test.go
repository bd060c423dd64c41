package badgerkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// TestReadOnlyDisk opens a store on a disk that cannot be written.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 100)
	dir := filepath.Join(disk, "store")
	if err := openSmall(t, dir).Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount: %v", err)
	}
	for _, dir := range []string{dir, filepath.Join(disk, "new")} {
		_, err := badgerkv.Open(dir, options())
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open of %s on a read-only disk: got %v, want EROFS that names it", dir, err)
		}
	}
}

// TestPermissionDenied opens another user's store.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	require(t, "root", os.Geteuid() == 0)
	dir := memoryDir(t)
	if err := open(t, dir).Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
	c := start(t, "nobody", dir)
	c.out.Scan()
	if got := c.out.Text(); !strings.HasPrefix(got, "error: badgerkv: ") || !strings.Contains(got, dir) || !strings.Contains(got, "permission denied") {
		t.Errorf("Open as another user: got %q, want an error that names %s and says permission denied", got, dir)
	}
}

// TestCloseOnFullDisk closes a store of which the table in memory fits nowhere:
// the process goes on, and what was acknowledged is in the log.
func TestCloseOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 200)
	dir := filepath.Join(disk, "store")
	s := openSmall(t, dir)
	if n := fill(t, s, "before", 1<<20, 25); n != 25 {
		t.Fatalf("took %d values, want 25", n)
	}
	if err := os.Remove(filepath.Join(dir, "RESERVE")); err != nil {
		t.Fatal(err)
	}
	quiet(t, dir)
	fillDisk(t, disk)
	if err := s.Close(); err != nil {
		t.Fatalf("Close on a full disk: got %v, want nil", err)
	}
	wantLocked(t, dir, os.Getpid())
	elsewhere := memoryDir(t)
	copyFiles(t, dir+"/.", elsewhere)
	s = open(t, elsewhere)
	defer s.Close()
	wantFilled(t, s, "before", 1<<20, 25)
}

// TestPowerCut takes copies of the disk while a store on it writes: what was
// acknowledged before is on each of them. The disk is a file system in a file,
// and what was not synced is not in the file.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	require(t, "loop", os.Geteuid() == 0 && loopWorks(t))
	work := t.TempDir()
	image := filepath.Join(work, "disk")
	run(t, "truncate", "-s", "400M", image)
	run(t, "mkfs.ext4", "-q", image)
	disk := mountImage(t, image)
	s := openSmall(t, filepath.Join(disk, "store"))
	defer s.Close()
	n := 0
	for cut := range 5 {
		for range 9 + 11*cut {
			n++
			if err := s.Apply(t.Context(), numbered(n)); err != nil {
				t.Fatalf("Apply: got %v, want nil", err)
			}
		}
		after := filepath.Join(work, fmt.Sprint("after", cut))
		run(t, "cp", "--sparse=always", image, after)
		checkBatches(t, filepath.Join(mountImage(t, after), "store"), n)
	}
}

// loopWorks reports whether a loop device can be made.
func loopWorks(t *testing.T) bool {
	t.Helper()
	_, err := os.Stat("/dev/loop-control")
	return err == nil
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := osexec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, bytes.TrimSpace(out))
	}
}

// mountImage mounts the file system in the file image until the test ends.
func mountImage(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "mount", "-o", "loop", image, dir)
	t.Cleanup(func() { run(t, "umount", "-l", dir) })
	return dir
}

// A store that is not a store of ours is refused, too.
func TestForeignStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("Bdgr\x00\x07\x00\x08"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := badgerkv.Open(dir, options()); !errors.Is(err, kvstore.ErrCorrupt) || !strings.Contains(err.Error(), "magic") {
		t.Errorf("Open of a badger directory of another program: got %v, want ErrCorrupt that says so", err)
	}
}
