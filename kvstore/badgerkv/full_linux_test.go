package badgerkv_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// require skips the test unless ability is there; where WSFS_REQUIRE lists it,
// the test fails instead.
func require(t *testing.T, ability string, have bool) {
	t.Helper()
	switch {
	case have:
	case slices.Contains(strings.Split(os.Getenv("WSFS_REQUIRE"), ","), ability):
		t.Fatalf("WSFS_REQUIRE lists %s, which is not there", ability)
	default:
		t.Skipf("needs %s", ability)
	}
}

// smallDisk mounts a tmpfs of so many MiB.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	require(t, "root", os.Geteuid() == 0)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func openSmall(t *testing.T, dir string) *badgerkv.Store {
	t.Helper()
	opt := options()
	opt.Headroom = 32 << 20
	s, err := badgerkv.Open(dir, opt)
	if err != nil {
		t.Fatalf("Open: got %v, want nil", err)
	}
	return s
}

// fill puts values of size bytes until the store is full, and returns how many
// it took.
func fill(t *testing.T, s kvstore.Store, prefix string, size, most int) int {
	t.Helper()
	for n := range most {
		err := putOne(t, s, kvstore.Key(fmt.Sprintf("%s/%06d", prefix, n)), bytes.Repeat([]byte{byte(n)}, size))
		if errors.Is(err, kvstore.ErrFull) {
			return n
		}
		if err != nil {
			t.Fatalf("Apply %d: got %v, want nil or ErrFull", n, err)
		}
	}
	return most
}

// wantFilled fails the test unless s holds what fill put.
func wantFilled(t *testing.T, s kvstore.Store, prefix string, size, count int) {
	t.Helper()
	n := 0
	err := s.Scan(t.Context(), kvstore.Key(prefix+"/"), func(item kvstore.Item) error {
		if want := bytes.Repeat([]byte{byte(n)}, size); !bytes.Equal(item.Value, want) {
			return fmt.Errorf("item %d, %q, has other bytes", n, item.Key)
		}
		n++
		return nil
	})
	if err != nil || n != count {
		t.Fatalf("Scan(%s/): got %d items, %v, want %d", prefix, n, err, count)
	}
}

// TestFullByItself fills the disk with the store's own values. It then still
// takes small batches, is read, closed and opened, and takes large ones again
// after values were deleted and the disk got larger.
func TestFullByItself(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 320)
	dir := filepath.Join(disk, "store")
	s := openSmall(t, dir)
	n := fill(t, s, "big", 1<<20, 1000)
	if n < 64 || n == 1000 {
		t.Errorf("a disk of 320 MiB took %d values of 1 MiB, want some and not all", n)
	}
	t.Logf("320 MiB took %d values of 1 MiB", n)
	if err := putOne(t, s, "small", []byte("x")); err != nil {
		t.Errorf("small Apply on a full disk: got %v, want nil", err)
	}
	wantFilled(t, s, "big", 1<<20, n)
	if err := s.Close(); err != nil {
		t.Fatalf("Close on a full disk: got %v, want nil", err)
	}
	s = openSmall(t, dir)
	defer s.Close()
	wantFilled(t, s, "big", 1<<20, n)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=900m"); err != nil {
		t.Fatalf("remount: %v", err)
	}
	if err := putOne(t, s, "big again", make([]byte, 1<<20)); err != nil {
		t.Errorf("Apply after the disk got larger: got %v, want nil", err)
	}
}

// fillDisk writes a file until not a byte is free.
func fillDisk(t *testing.T, disk string) (remove func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	buf := make([]byte, 1<<20)
	for len(buf) > 0 {
		n, err := file.Write(buf)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, io.ErrShortWrite) || n < len(buf) {
			buf = buf[:len(buf)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullByOthers has another program take every byte of the disk while the
// store is open, at several fillings of its log, and no table is being written.
func TestFullByOthers(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 5, 20, 31, 33, 70} {
		t.Run(fmt.Sprintf("After%dMiB", before), func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 500)
			dir := filepath.Join(disk, "store")
			s := openSmall(t, dir)
			if n := fill(t, s, "before", 1<<20, before); n != before {
				t.Fatalf("took %d values, want %d", n, before)
			}
			quiet(t, dir) // a table that is being written is not safe; see the package comment
			remove := fillDisk(t, disk)
			if err := putOne(t, s, "big", make([]byte, 1<<20)); !errors.Is(err, kvstore.ErrFull) {
				t.Errorf("large Apply on a full disk: got %v, want ErrFull", err)
			}
			small := fill(t, s, "small", 40_000, 5000)
			t.Logf("%d batches of 40 kB went on", small)
			if small == 5000 {
				t.Errorf("200 MB in small batches fitted on a full disk")
			}
			for range 2 {
				wantFilled(t, s, "before", 1<<20, before)
				wantFilled(t, s, "small", 40_000, small)
				if err := s.Close(); err != nil {
					t.Fatalf("Close on a full disk: got %v, want nil", err)
				}
				s = openSmall(t, dir)
			}
			remove()
			if n := fill(t, s, "after", 1<<20, 20); n != 20 {
				t.Errorf("after space was freed: took %d values, want 20", n)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("Close: got %v, want nil", err)
			}
		})
	}
}
