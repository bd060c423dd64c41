//go:build linux

package integration

import (
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newDisk makes a file system of the kind, as large as size ("300M"), on a loop
// device and returns where it is mounted until the test ends.
func newDisk(t *testing.T, kind, size string) string {
	t.Helper()
	need(t, "root", "loop", kind)
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	runProgram(t, "truncate", "-s", size, image)
	runProgram(t, "mkfs."+kind, "-q", image)
	runProgram(t, "mount", "-t", kind, "-o", "loop", image, at)
	t.Cleanup(func() { // after the workspace's own
		if out, err := osexec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount of a %s: %v\n%s", kind, err, out)
			_ = unix.Unmount(at, unix.MNT_DETACH) // reported above
		}
	})
	return at
}

// runProgram runs a program that must succeed.
func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(t, "", name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestQuota: over its quota a workspace refuses what needs room with EDQUOT,
// in the middle of a write and of a copy-up; nothing acknowledged is lost, the
// project's files show as they were, and removing makes room again.
func TestQuota(t *testing.T) {
	t.Parallel()
	disk := newDisk(t, "btrfs", "300M")
	volume := filepath.Join(disk, "volume")
	runProgram(t, "btrfs", "quota", "enable", disk)
	runProgram(t, "btrfs", "subvolume", "create", volume)
	runProgram(t, "btrfs", "qgroup", "limit", "24M", volume)

	project := t.TempDir() // not on the disk, so that files are copied, not cloned
	big := bytes.Repeat([]byte("project\n"), 1<<20)
	for _, name := range []string{"append", "chmod", "truncate", "rename", "link", "last"} {
		put(t, project, "dir/"+name, string(big))
	}
	before := treeOf(t, project, everything)
	w := newWorkspace(t, project, "--store", "badger:"+filepath.Join(t.TempDir(), "kv"))
	w.state = filepath.Join(volume, "state")
	w.mount()

	filler := filepath.Join(w.dir, "filler")
	size := fill(t, filler, unix.EDQUOT)
	checkFilled(t, filler, size)
	path := func(name string) string { return filepath.Join(w.dir, "dir", name) }
	for name, change := range map[string]func(string) error{
		"append":   func(p string) error { return appendTo(p, "more\n") },
		"chmod":    func(p string) error { return unix.Chmod(p, 0o600) },
		"truncate": func(p string) error { return unix.Truncate(p, 7<<20) },
		"rename":   func(p string) error { return unix.Rename(p, p+"2") },
		"link":     func(p string) error { return unix.Link(p, p+"2") },
	} {
		if err := change(path(name)); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("%s of a project file of 8 MiB over the quota: got %v, want EDQUOT", name, err)
		}
	}
	wantProject := func(when string) {
		t.Helper()
		v := view{times: true}
		if d := treeOf(t, filepath.Join(project, "dir"), v).diff(treeOf(t, filepath.Join(w.dir, "dir"), v)); d != "" {
			t.Errorf("the project's files (want) and the mount's (got) differ %s:\n%s", when, d)
		}
	}
	wantProject("over the quota")
	checkFilled(t, filler, size)

	w.remount()
	checkFilled(t, filler, size)
	wantProject("over the quota, mounted anew")
	if err := os.Remove(filler); err != nil {
		t.Fatalf("remove over the quota: %v", err)
	}
	runProgram(t, "btrfs", "filesystem", "sync", disk) // only a commit counts the quota anew
	if err := appendTo(path("last"), "more\n"); err != nil {
		t.Errorf("append when there is room again: %v", err)
	}
	w.remount()
	if got, err := os.ReadFile(path("last")); err != nil || !bytes.Equal(got, append(big, "more\n"...)) {
		t.Errorf("after a remount: %d bytes, %v, want %d", len(got), err, len(big)+5)
	}
	w.unmount()
	w.check()
	if d := before.diff(treeOf(t, project, everything)); d != "" {
		t.Errorf("the project changed:\n%s", d)
	}
}

// TestClones: where project and workspace are on one file system that can clone,
// a copy-up takes no room: its extents are the project's.
func TestClones(t *testing.T) {
	t.Parallel()
	need(t, "filefrag")
	for kind, size := range map[string]string{"btrfs": "200M", "xfs": "320M"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			disk := newDisk(t, kind, size)
			project := filepath.Join(disk, "project")
			big := bytes.Repeat([]byte("project\n"), 1<<20)
			put(t, project, "big", string(big))
			runProgram(t, "sync", "-f", disk) // extents are known
			w := newWorkspace(t, project, "--store", "badger:"+filepath.Join(t.TempDir(), "kv"))
			w.state = filepath.Join(disk, "state")
			w.mount()
			if err := appendTo(filepath.Join(w.dir, "big"), "more\n"); err != nil {
				t.Fatal(err)
			}
			runProgram(t, "sync", "-f", disk)
			upper := filepath.Join(w.state, "workspaces/test/layers/1/big")
			if out := runProgram(t, "filefrag", "-v", upper); !strings.Contains(out, "shared") {
				t.Errorf("the copy shares nothing with the project:\n%s", out)
			}
			if got, err := os.ReadFile(filepath.Join(w.dir, "big")); err != nil || !bytes.Equal(got, append(big, "more\n"...)) {
				t.Errorf("the copy: %d bytes, %v, want %d", len(got), err, len(big)+5)
			}
			if got, err := os.ReadFile(filepath.Join(project, "big")); err != nil || !bytes.Equal(got, big) {
				t.Errorf("the project's file: %d bytes, %v, want %d as before", len(got), err, len(big))
			}
		})
	}
}
