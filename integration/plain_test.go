//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// layers are directories to be merged.
type layers struct{ lower1, lower2, upper, work, mnt string }

func newLayers(t *testing.T) layers {
	t.Helper()
	base := t.TempDir()
	l := layers{base + "/l1", base + "/l2", base + "/up", base + "/wk", base + "/mnt"}
	for _, d := range []string{l.lower1, l.lower2, l.upper, l.work, l.mnt} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, l.lower1, "both/top", "l1\n")
	put(t, l.lower1, "same", "l1\n")
	put(t, l.lower2, "same", "l2\n")
	put(t, l.lower2, "both/bottom", "l2\n")
	put(t, l.lower2, "gone/f", "l2\n")
	put(t, l.lower2, "moved/sub/f", "l2\n")
	script(t, l.lower2, `ln same linked; ln -s same link; mkfifo fifo 2>/dev/null || true; chmod 750 moved`)
	return l
}

func (l layers) options() string {
	return "lowerdir=" + l.lower1 + ":" + l.lower2 + ",upperdir=" + l.upper + ",workdir=" + l.work
}

// changes is done to a merged tree.
const changes = `
	cat same both/top both/bottom
	echo more >>same
	rm -r gone
	mkdir gone; echo new >gone/g
	mv moved renamed
	echo x >>renamed/sub/f
	rm both/bottom
	ln -s renamed/sub way
	echo y >both/new
	chmod 600 both/top
	mv link link2
	ls -A . gone both renamed/sub
`

// unmountAtEnd unmounts dir when the test ends and fails it if that fails.
func unmountAtEnd(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		if stderr, exit := runWsfs(t, "", "umount", dir); exit != 0 {
			t.Errorf("wsfs umount %s: exit %d, %s", dir, exit, stderr)
			_ = unix.Unmount(dir, unix.MNT_DETACH) // reported above
		}
	})
}

// TestPlainOverlay mounts plain directories, as command and as mount(8)'s
// helper, and has the kernel mount what was written: it shows the same.
func TestPlainOverlay(t *testing.T) {
	t.Parallel()
	need(t, "fuse", "root")
	helper := filepath.Join(t.TempDir(), "mount.fuse.wsfs")
	if err := os.Symlink(wsfs(t), helper); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(l layers) []string{
		"command": func(l layers) []string { return []string{wsfs(t), "overlay", "-o", l.options(), l.mnt} },
		"helper":  func(l layers) []string { return []string{helper, "overlay", l.mnt, "-o", "rw," + l.options()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLayers(t)
			before := []tree{treeOf(t, l.lower1, everything), treeOf(t, l.lower2, everything)}
			args := start(l)
			if out, err := command(t, "", args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			t.Run("mounted", func(t *testing.T) {
				unmountAtEnd(t, l.mnt)
				script(t, l.mnt, changes)
				l.compareWithKernel(t)
			})
			for i, dir := range []string{l.lower1, l.lower2} {
				if d := before[i].diff(treeOf(t, dir, everything)); d != "" {
					t.Errorf("lower directory %s changed:\n%s", dir, d)
				}
			}
		})
	}
}

// compareWithKernel has the kernel's overlayfs show the layers read-only.
func (l layers) compareWithKernel(t *testing.T) {
	t.Helper()
	kernel := t.TempDir()
	options := "redirect_dir=follow,lowerdir=" + l.upper + ":" + l.lower1 + ":" + l.lower2
	if err := unix.Mount("overlay", kernel, "overlay", unix.MS_RDONLY, options); err != nil {
		t.Fatalf("overlay mount by the kernel, %s: %v", options, err)
	}
	defer func() {
		if err := unix.Unmount(kernel, 0); err != nil {
			t.Errorf("unmount of %s: %v", kernel, err)
		}
	}()
	v := view{times: true}
	if d := treeOf(t, kernel, v).diff(treeOf(t, l.mnt, v)); d != "" {
		t.Errorf("wsfs (got) and the kernel (want) show different trees of the same layers:\n%s", d)
	}
}

// TestPlainReadOnly: without an upper directory nothing can be written.
func TestPlainReadOnly(t *testing.T) {
	t.Parallel()
	need(t, "fuse")
	l := newLayers(t)
	if out, err := command(t, "", wsfs(t), "overlay", "-o", "lowerdir="+l.lower1+":"+l.lower2, l.mnt).CombinedOutput(); err != nil {
		t.Fatalf("wsfs overlay: %v\n%s", err, out)
	}
	unmountAtEnd(t, l.mnt)
	script(t, l.mnt, `cat same both/bottom moved/sub/f`)
	if err := os.WriteFile(filepath.Join(l.mnt, "new"), nil, 0o644); !os.IsPermission(err) && !isReadOnly(err) {
		t.Errorf("write without an upper: got %v, want EROFS", err)
	}
}
