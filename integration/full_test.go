//go:build linux

package integration

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// small returns a workspace, not mounted yet, whose state is on a file system
// of its own with size bytes ("48m").
func small(t *testing.T, project, size string, args ...string) *workspace {
	t.Helper()
	need(t, "root")
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the workspace's own
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount of the state's file system: %v", err)
			_ = unix.Unmount(disk, unix.MNT_DETACH) // reported above
		}
	})
	w := newWorkspace(t, project, args...)
	w.state = filepath.Join(disk, "state")
	return w
}

// fill writes to a new file until that fails with errno, and returns its size.
func fill(t *testing.T, path string, errno unix.Errno) (size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	content := fillContent()
	block := make([]byte, 1<<20)
	for err == nil && size < 256<<20 {
		var n int
		_, _ = content.Read(block) // never fails
		n, err = f.Write(block)
		size += int64(n)
	}
	if err = errors.Join(err, f.Close()); !errors.Is(err, errno) {
		t.Fatalf("filling the disk with %s: stopped at %d bytes with %v, want %v", path, size, err, errno)
	}
	return size
}

// fillContent returns what fill writes: a store keeps equal chunks once.
func fillContent() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

// checkFilled checks that path holds the size bytes that fill wrote.
func checkFilled(t *testing.T, path string, size int64) {
	t.Helper()
	want := make([]byte, size)
	_, _ = fillContent().Read(want) // never fails
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file that filled the disk: %d bytes, %v, want the %d that were written", len(got), err, size)
	}
}

// TestDiskFull: a full disk is ENOSPC, a copy-up that fails leaves the
// project's file in place, and removing makes room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	big := bytes.Repeat([]byte("project\n"), 1<<20) // 8 MiB
	put(t, project, "big", string(big))
	put(t, project, "little", "little\n")
	w := small(t, project, "48m", "--store", "badger:"+filepath.Join(t.TempDir(), "kv"))
	w.mount()
	before := treeOf(t, project, everything)

	filler, path := filepath.Join(w.dir, "filler"), filepath.Join(w.dir, "big")
	checkFilled(t, filler, fill(t, filler, unix.ENOSPC))
	if err := appendTo(path, "more\n"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("append to a project file of 8 MiB on a full disk: got %v, want ENOSPC", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, big) {
		t.Errorf("the project file after a failed copy-up: %d bytes, %v, want the %d of the project", len(got), err, len(big))
	}
	if err := os.WriteFile(filepath.Join(w.dir, "MEMORY.md"), []byte("kept\n"), 0o644); err != nil {
		t.Errorf("write to the store, which is elsewhere: %v", err)
	}
	w.remount() // a full disk can be mounted, so that room can be made
	if err := os.Remove(filler); err != nil {
		t.Fatalf("remove on a full disk: %v", err)
	}
	if err := appendTo(path, "more\n"); err != nil {
		t.Errorf("append when there is room again: %v", err)
	}
	w.remount()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, append(big, "more\n"...)) {
		t.Errorf("after a remount: %d bytes, %v, want %d", len(got), err, len(big)+5)
	}
	w.unmount()
	w.check()
	if d := before.diff(treeOf(t, project, everything)); d != "" {
		t.Errorf("the project changed:\n%s", d)
	}
}

// TestStoreFull: on a full disk the store refuses, keeps what it has, and goes
// on when there is room.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	put(t, project, "f", "f\n")
	w := small(t, project, "64m")
	w.mount()
	memory := filepath.Join(w.dir, "memory")
	kept := filepath.Join(memory, "kept")
	if err := os.WriteFile(kept, []byte("kept\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(w.dir, "filler")
	fill(t, filler, unix.ENOSPC)
	stored := fill(t, filepath.Join(memory, "filler"), unix.ENOSPC)
	t.Logf("the store took %d bytes of a file on a full disk", stored)
	w.remount()
	if got, err := os.ReadFile(kept); err != nil || string(got) != "kept\n" {
		t.Errorf("a file of the full store: %q, %v", got, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatalf("remove on a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(memory, "filler")); err != nil {
		t.Errorf("remove in the store: %v", err)
	}
	if err := os.WriteFile(filepath.Join(memory, "after"), []byte("after\n"), 0o644); err != nil {
		t.Errorf("write to the store when there is room again: %v", err)
	}
	w.remount()
	for name, want := range map[string]string{"kept": "kept\n", "after": "after\n"} {
		if got, err := os.ReadFile(filepath.Join(memory, name)); err != nil || string(got) != want {
			t.Errorf("%s after a remount: %q, %v, want %q", name, got, err, want)
		}
	}
	w.unmount()
	w.check()
}
