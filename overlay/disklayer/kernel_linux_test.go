package disklayer

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// The kernel shows a stack that was written here as it was meant.
func TestKernelReadsLayers(t *testing.T) {
	t.Parallel()
	need(t, "root")
	base := t.TempDir()
	lower := filepath.Join(base, "lower")
	for _, dir := range []string{"gone", "opaque/old", "moved/sub", "replaced/old"} {
		must(t, "MkdirAll", os.MkdirAll(filepath.Join(lower, dir), 0o755))
		put0(t, lower, dir+"/f", dir)
	}
	put0(t, lower, "file", "file")
	put0(t, lower, "kept", "kept")

	p, ctx := place{filepath.Join(base, "upper"), filepath.Join(base, "work")}, t.Context()
	u := p.open(t, Options{})
	must(t, "Whiteout", u.Whiteout(ctx, "gone"))
	must(t, "Whiteout", u.Whiteout(ctx, "file"))
	must(t, "Mkdir", u.Mkdir(ctx, "opaque", perm(0o755)))
	must(t, "SetOpaque", u.SetOpaque(ctx, "opaque", true))
	write(t, u, "opaque/new", "new")
	must(t, "Mkdir", u.Mkdir(ctx, "moved", perm(0o755)))
	must(t, "SetRedirect", u.SetRedirect(ctx, "moved", "moved"))
	must(t, "Rename", u.Rename(ctx, "moved", "here", 0))
	must(t, "Whiteout", u.Whiteout(ctx, "moved"))
	must(t, "Whiteout", u.Whiteout(ctx, "replaced"))
	must(t, "Mkdir", u.Mkdir(ctx, "replaced", perm(0o755)))
	must(t, "Setxattr", u.Setxattr(ctx, "replaced", "user.x", []byte("y"), 0))
	must(t, "Close", u.Close())

	mnt := filepath.Join(base, "mnt")
	must(t, "Mkdir", os.Mkdir(mnt, 0o755))
	err := unix.Mount("overlay", mnt, "overlay", unix.MS_RDONLY, "lowerdir="+p.dir+":"+lower+",redirect_dir=follow")
	must(t, "mount", err)
	defer unix.Unmount(mnt, unix.MNT_DETACH)
	out, err := osexec.Command("sh", "-c", "cd "+mnt+" && find . | LC_ALL=C sort").Output()
	must(t, "find", err)
	want := ". ./here ./here/sub ./here/sub/f ./kept ./opaque ./opaque/new ./replaced"
	if got := strings.Join(strings.Fields(string(out)), " "); got != want {
		t.Errorf("the kernel shows\n%s\nwant\n%s", got, want)
	}
	if attrs, err := osexec.Command("getfattr", "-d", "-m", "-", "--absolute-names", mnt+"/here", mnt+"/replaced").Output(); err == nil && strings.Contains(string(attrs), "wsfs") {
		t.Errorf("marks show through the kernel:\n%s", attrs)
	}
}

// Redirects that the kernel wrote, which are relative within a directory, are
// read as they are meant.
func TestRedirectsOfTheKernel(t *testing.T) {
	t.Parallel()
	need(t, "root")
	base := t.TempDir()
	dirs := make(map[string]string)
	for _, name := range []string{"lower", "upper", "work", "mnt"} {
		dirs[name] = filepath.Join(base, name)
		must(t, "Mkdir", os.Mkdir(dirs[name], 0o755))
	}
	must(t, "MkdirAll", os.MkdirAll(dirs["lower"]+"/a/b/c", 0o755))
	options := "lowerdir=" + dirs["lower"] + ",upperdir=" + dirs["upper"] + ",workdir=" + dirs["work"] + ",redirect_dir=on"
	must(t, "mount", unix.Mount("overlay", dirs["mnt"], "overlay", 0, options))
	err := os.Rename(dirs["mnt"]+"/a/b", dirs["mnt"]+"/a/x")
	if err == nil {
		err = os.Rename(dirs["mnt"]+"/a", dirs["mnt"]+"/y")
	}
	if err == nil {
		err = os.Rename(dirs["mnt"]+"/y/x/c", dirs["mnt"]+"/y/x/d")
	}
	unix.Unmount(dirs["mnt"], unix.MNT_DETACH)
	must(t, "Rename", err)
	f, err := OpenFrozen(dirs["upper"], Options{})
	must(t, "OpenFrozen", err)
	defer f.Close()
	for name, want := range map[string]string{"y": "a", "y/x": "a/b", "y/x/d": "a/b/c"} {
		a, err := f.Absence(t.Context(), overlay.Name(name))
		if err != nil || string(a.Redirect) != want {
			t.Errorf("Absence(%q) = %+v, %v; want the redirect %q", name, a, err, want)
		}
	}
	if got := listing(t, f, "."); got != "y !a" {
		t.Errorf("the kernel's upper lists %q", got)
	}
}
