//go:build linux

package integration

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPjdfstest runs pjdfstest, built in the directory WSFS_PJDFSTEST, on a
// plain overlay, on a workspace's disk part and on a route, at once. Each takes
// some four minutes, most of which the suite's scripts sleep.
func TestPjdfstest(t *testing.T) {
	suite := os.Getenv("WSFS_PJDFSTEST")
	if suite == "" {
		t.Skip("WSFS_PJDFSTEST names no built pjdfstest")
	}
	need(t, "fuse", "root", "prove", "openssl")
	t.Cleanup(setUmask(0))
	lower := openTemp(t)
	put(t, lower, "lower", "1\n")
	plain, _, unmount := startPlain(t, lower, openTemp(t))
	t.Cleanup(unmount)
	workspace, _, _ := startWorkspace(t, lower, openTemp(t))
	for name, dir := range map[string]string{"overlay": plain, "disk": workspace, "store": filepath.Join(workspace, "memory")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(dir, "pjdfstest")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			prove := osexec.CommandContext(t.Context(), "prove", "-r", "-Q", filepath.Join(suite, "tests"))
			prove.Dir = dir
			out, err := prove.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Result: PASS") {
				t.Fatalf("prove: %v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// setUmask sets the process' umask and returns what sets it back.
func setUmask(mask int) (reset func()) {
	old := unix.Umask(mask)
	return func() { unix.Umask(old) }
}

// openTemp returns a temporary directory that every user can reach.
func openTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
