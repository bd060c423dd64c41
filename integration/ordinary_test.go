//go:build linux

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ordinaryTests need no privilege. A test that is not listed has the same in it
// as one that is, and is longer.
var ordinaryTests = []string{
	"TestEditors", "TestGitClone", "TestSQLite", "TestHostEdits", "TestHostNames", "TestNames", "TestDeepPaths",
	"TestCrash", "TestBusy", "TestBusyDeep", "TestMountedTwice", "TestReadOnly", "TestInUse", "TestPlainReadOnly",
}

// asOrdinary runs a test binary as nobody, in a mount namespace in which the
// device is open to everybody, as it is on an ordinary machine.
const asOrdinary = `
	mknod -m 666 "$DIR/fuse" c 10 229 && chmod 666 "$DIR/fuse"
	mount --bind "$DIR/fuse" /dev/fuse
	exec setpriv --reuid $ID --regid $ID --clear-groups --inh-caps=-all "$DIR/self.test" "$@"
`

// TestOrdinaryUser runs the tests that need no privilege again as a user who has
// none: mounted by fusermount3, without passthrough, with marks in user
// attributes.
func TestOrdinaryUser(t *testing.T) {
	need(t, "fuse", "root", "fusermount3", "unshare", "setpriv")
	dir, err := os.MkdirTemp("", "wsfs-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	tmp := filepath.Join(dir, "tmp")
	script(t, dir, `
		cp "$SELF" self.test; cp "$WSFS" wsfs; chmod 755 . self.test wsfs
		mkdir tmp; chown 65534:65534 tmp`, "SELF="+executable(t), "WSFS="+wsfs(t))
	cmd := command(t, tmp, "unshare", "--mount", "bash", "-euc", asOrdinary, "bash",
		"-test.run=^("+strings.Join(ordinaryTests, "|")+")$", "-test.v")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp, "USER=nobody", "DIR=" + dir, "ID=65534",
		"WSFS_BIN=" + filepath.Join(dir, "wsfs"), "WSFS_REQUIRE=" + withoutRoot(os.Getenv("WSFS_REQUIRE")),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
	for _, name := range ordinaryTests {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") && !strings.Contains(string(out), "--- SKIP: "+name+" ") {
			t.Errorf("%s did not run as an ordinary user", name)
		}
	}
}

// withoutRoot returns a list of requirements without root.
func withoutRoot(list string) string {
	var rest []string
	for r := range strings.SplitSeq(list, ",") {
		if r != "root" {
			rest = append(rest, r)
		}
	}
	return strings.Join(rest, ",")
}

// executable returns the path of the running test binary.
func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
