package disklayer

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
)

const ordinaryEnv = "WSFS_TEST_ORDINARY" // set in a child that is nobody

// TestAsOrdinaryUser runs tests of this package once more without privileges,
// and so with marks in user.* attributes.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	runAsNobody(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
		"TestOrdinaryMarks.*", "TestFilesAndDirectories", "TestWhiteouts", "TestRename", "TestNamesOfAnyKind",
		"TestCopyUpAndRemount", "TestHardLinksOfLowerFiles", "TestTmpfile", "TestHost.*", "TestEveryStepMayFail")
}

// TestInUserNamespace runs the conformance suite as the root of a user
// namespace, who may not do more than an ordinary user.
func TestInUserNamespace(t *testing.T) {
	t.Parallel()
	only := []syscall.SysProcIDMap{{ContainerID: 0, HostID: nobody, Size: 1}}
	runAsNobody(t, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: only, GidMappings: only,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}, "TestOrdinarySuite", "TestOrdinaryOverlay", "TestOrdinaryWatchLimit")
}

const nobody = 65534

// runAsNobody runs tests in a child with the attributes attr.
func runAsNobody(t *testing.T, attr *syscall.SysProcAttr, tests ...string) {
	t.Helper()
	need(t, "root")
	dir, err := os.MkdirTemp("", "disklayer-ordinary-")
	must(t, "MkdirTemp", err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, "Chown", os.Chown(dir, nobody, nobody))
	must(t, "Chmod", os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, "Executable", err)
	program := filepath.Join(dir, "test")
	run(t, "cp", self, program) // a program that this process wrote may be busy
	// An ordinary user's write to a file that was just made 6755 clears the 6.
	cmd := osexec.Command(program, "-test.count=1", "-test.run=^("+strings.Join(tests, "|")+")$", "-test.skip=^TestOrdinarySuite$/^Perm$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, ordinaryEnv+"=1", "WSFS_REQUIRE=")
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func ordinary(t *testing.T) {
	if os.Getenv(ordinaryEnv) == "" {
		t.Skip("part of TestAsOrdinaryUser")
	}
	t.Parallel()
}

// The namespace knows one owner, which takes ACLs for others away, too.
const ordinaryAbilities = layertest.All &^ (layertest.Owners | layertest.ACLs)

func TestOrdinarySuite(t *testing.T) {
	ordinary(t)
	layertest.Run(t, newAdopter(t, Options{}).config(ordinaryAbilities))
}

func TestOrdinaryOverlay(t *testing.T) {
	ordinary(t)
	layertest.RunOverlay(t, newAdopter(t, Options{}).config(ordinaryAbilities))
}

// At the kernel's limit Watch fails and leaves nothing behind.
func TestOrdinaryWatchLimit(t *testing.T) {
	ordinary(t)
	h, dir := newHost(t)
	must(t, "MkdirAll", os.MkdirAll(dir+"/a/b/c/d", 0o755))
	const limit = "/proc/sys/user/max_inotify_watches" // of this user namespace
	must(t, "WriteFile", os.WriteFile(limit, []byte("3"), 0))
	_, err := h.Watch(t.Context(), "a/b/c/d", func(string) {})
	want(t, "Watch over the limit", err, syscall.ENOSPC)
	if n := len(h.watch.points); n != 0 {
		t.Errorf("%d directories are watched after Watch failed", n)
	}
	stop, err := h.Watch(t.Context(), "a/b", func(string) {})
	must(t, "Watch within the limit", err)
	stop()
}

// Marks outlive permissions that keep their owner away.
func TestOrdinaryMarksOfLockedFiles(t *testing.T) {
	ordinary(t)
	p, ctx := newPlace(t), t.Context()
	u := p.open(t, Options{})
	if !u.marks.user {
		t.Fatal("the format is not that of an ordinary user")
	}
	c := overlay.Copy{Attr: overlay.Attr{Mode: overlay.TypeLink | 0o777, Nlink: 1}, Target: "to", Origin: 41}
	must(t, "CopyUp of a link", u.CopyUp(ctx, "l", c))
	for _, name := range []overlay.Name{"d", "e"} {
		c = overlay.Copy{Attr: overlay.Attr{Mode: overlay.TypeDir | 0o700, Nlink: 2}, Origin: 42}
		must(t, "CopyUp of a directory", u.CopyUp(ctx, name, c))
	}
	must(t, "SetOpaque", u.SetOpaque(ctx, "d", true))
	for _, name := range []overlay.Name{"d", "e"} {
		_, err := u.SetAttr(ctx, name, overlay.SetAttr{Valid: overlay.SetMode, Mode: 0})
		must(t, "SetAttr", err)
	}
	must(t, "SetRedirect of a directory without permissions", u.SetRedirect(ctx, "e", "else/where"))
	must(t, "Rename", u.Rename(ctx, "e", "f", 0))
	check := func(when string) {
		t.Helper()
		for name, origin := range map[overlay.Name]uint64{"l": 41, "d": 42, "f": 42} {
			if a, err := u.Lstat(ctx, name); err != nil || a.Origin != origin {
				t.Errorf("%s: Lstat(%q) = origin %d, %v; want %d", when, name, a.Origin, err, origin)
			}
		}
		if a, err := u.Absence(ctx, "d"); err != nil || !a.Opaque {
			t.Errorf("%s: Absence(d) = %+v, %v; want opaque", when, a, err)
		}
		if a, err := u.Absence(ctx, "f"); err != nil || a.Redirect != "else/where" {
			t.Errorf("%s: Absence(f) = %+v, %v; want the redirect", when, a, err)
		}
	}
	check("at once")
	must(t, "Close", u.Close())
	u = p.open(t, Options{})
	check("after a new start")
	must(t, "Remove", u.Remove(ctx, "l"))
	_, err := u.SetAttr(ctx, "d", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o700})
	must(t, "SetAttr", err)
	must(t, "Remove", u.Remove(ctx, "d"))
	must(t, "Remove", u.Remove(ctx, "f"))
	if n := len(u.marks.extra.inodes()); n != 0 {
		t.Errorf("the mark file holds %d files after all are gone", n)
	}
	must(t, "Close", u.Close())
}
