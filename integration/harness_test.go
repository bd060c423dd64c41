//go:build linux

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a program may run before it counts as hung, and how
// long a mount may take to come up. It decides nothing on a healthy machine.
const patience = 4 * time.Minute

// scratch is the directory of what all tests share; TestMain removes it.
var scratch string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "wsfs-integration-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// wsfs returns the binary under test: the one WSFS_BIN names, or one built at
// the first call.
func wsfs(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("WSFS_BIN"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(scratch, "wsfs")
	build := osexec.Command("go", "build", "-o", path, "./cmd/wsfs")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of the binary: %v\n%s", err, out)
	}
	return path, nil
})

// need skips the test where one of the requirements is not met, or fails it
// where WSFS_REQUIRE says that this machine has it.
func need(t *testing.T, requirements ...string) {
	t.Helper()
	required := strings.Split(os.Getenv("WSFS_REQUIRE"), ",")
	for _, r := range requirements {
		err := lacks(r)
		switch {
		case err == nil:
		case slices.Contains(required, r):
			t.Fatalf("WSFS_REQUIRE lists %s: %v", r, err)
		default:
			t.Skipf("needs %s: %v", r, err)
		}
	}
}

// lacks returns why a requirement is not met, nil if it is.
func lacks(requirement string) error {
	switch requirement {
	case "root":
		if os.Geteuid() != 0 {
			return errors.New("not root")
		}
		return nil
	case "fuse":
		if os.Geteuid() != 0 {
			return lacks("fusermount3") // which opens the device for others
		}
		fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return syscall.Close(fd)
	case "loop":
		_, err := os.Stat("/dev/loop-control")
		return err
	case "btrfs", "xfs":
		if err := kernelKnows(requirement); err != nil {
			return err
		}
		requirement = "mkfs." + requirement
	case "xattr":
		requirement = "setfattr"
	case "acl":
		requirement = "setfacl"
	}
	_, err := osexec.LookPath(requirement)
	return err
}

// kernelKnows returns an error if the kernel has not got the file system.
func kernelKnows(kind string) error {
	known, err := os.ReadFile("/proc/filesystems")
	if err == nil && !slices.Contains(strings.Fields(string(known)), kind) {
		err = fmt.Errorf("no %s in this kernel", kind)
	}
	return err
}

// A workspace is one on the test's own state directory, mounted or not.
type workspace struct {
	t       *testing.T
	dir     string   // the mountpoint
	state   string   // the state directory
	project string   // the project directory
	args    []string // more arguments of mount
	server  *osexec.Cmd
	log     bytes.Buffer // the server's stderr; read it only after exited
	exited  chan error   // receives the server's exit, then is closed
}

// newWorkspace returns a workspace over project that is not mounted yet. When
// the test ends it is unmounted, and the test fails if that leaves a mount or
// a process behind.
func newWorkspace(t *testing.T, project string, args ...string) *workspace {
	t.Helper()
	need(t, "fuse")
	base := t.TempDir()
	w := &workspace{t: t, project: project, args: args, dir: filepath.Join(base, "mnt"), state: filepath.Join(base, "state")}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cleanup)
	return w
}

// mounted returns a mounted workspace over project.
func mounted(t *testing.T, project string, args ...string) *workspace {
	t.Helper()
	w := newWorkspace(t, project, args...)
	w.mount()
	return w
}

// mount mounts w and returns when it can be used.
func (w *workspace) mount() {
	w.t.Helper()
	args := append([]string{"mount", w.dir, "--foreground", "--name", "test", "--state", w.state,
		"--agent", "default", "--user", "tester", "--project", w.project}, w.args...)
	w.server = osexec.Command(wsfs(w.t), args...)
	w.server.Stderr = &w.log
	w.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stdout, err := w.server.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.Start(); err != nil {
		w.t.Fatal(err)
	}
	ready, exited := make(chan string, 1), make(chan error, 1)
	w.exited = exited
	server := w.server
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		ready <- strings.TrimSuffix(line, "\n")
		exited <- server.Wait()
		close(exited)
	}()
	select {
	case line := <-ready:
		if line != w.dir {
			w.kill()
			w.t.Fatalf("wsfs mount: first line of output %q, want the mountpoint %q; stderr:\n%s", line, w.dir, w.log.String())
		}
	case <-time.After(patience):
		w.dump()
		w.t.Fatalf("wsfs mount: not ready after %v; stderr:\n%s", patience, w.log.String())
	}
}

// unmount unmounts w with wsfs umount and waits for the server, which must end
// without an error.
func (w *workspace) unmount() {
	w.t.Helper()
	if out, err := command(w.t, "", wsfs(w.t), "umount", w.dir).CombinedOutput(); err != nil {
		w.t.Fatalf("wsfs umount: %v\n%s", err, out)
	}
	select {
	case err := <-w.exited:
		if err != nil {
			w.t.Fatalf("wsfs mount ended with %v; stderr:\n%s", err, w.log.String())
		}
	case <-time.After(patience):
		w.dump()
		w.t.Fatalf("wsfs mount still runs %v after umount; stderr:\n%s", patience, w.log.String())
	}
	w.server = nil
	if w.isMounted() {
		w.t.Fatalf("%s is still a mountpoint after umount", w.dir)
	}
}

// remount unmounts w and mounts it again.
func (w *workspace) remount() {
	w.t.Helper()
	w.unmount()
	w.mount()
}

// check runs wsfs check, which must find nothing wrong. w must not be mounted.
func (w *workspace) check() {
	w.t.Helper()
	if out, err := command(w.t, "", wsfs(w.t), "check", "test", "--state", w.state).CombinedOutput(); err != nil {
		w.t.Errorf("wsfs check: %v\n%s", err, out)
	}
}

// kill ends the server as kill -9 does and waits for it.
func (w *workspace) kill() {
	if w.server == nil {
		return
	}
	_ = w.server.Process.Kill() // it may have ended already
	<-w.exited
	w.server = nil
}

// dump ends a server that hangs in a way that shows its goroutines in w.log.
func (w *workspace) dump() {
	_ = w.server.Process.Signal(syscall.SIGQUIT) // it may have ended already
	select {
	case <-w.exited:
		w.server = nil
	case <-time.After(10 * time.Second):
		w.kill()
	}
}

// cleanup leaves nothing of w mounted or running, and fails the test if a plain
// unmount does not do.
func (w *workspace) cleanup() {
	if w.server != nil {
		if out, err := command(w.t, "", wsfs(w.t), "umount", w.dir).CombinedOutput(); err != nil {
			w.t.Errorf("wsfs umount at the end of the test: %v\n%s", err, out)
			w.dump()
		} else if err := <-w.exited; err != nil {
			w.t.Errorf("wsfs mount ended with %v", err)
		}
	}
	if w.t.Failed() && w.log.Len() > 0 {
		w.t.Logf("stderr of wsfs mount:\n%s", w.log.String())
	}
	for w.isMounted() {
		if err := syscall.Unmount(w.dir, syscall.MNT_DETACH); err != nil {
			w.t.Errorf("unmount of %s: %v", w.dir, err)
			return
		}
	}
	w.leftMounts()
}

// isMounted reports whether w.dir is a mountpoint, of a dead server, too.
func (w *workspace) isMounted() bool {
	return slices.Contains(mountpoints(w.t), w.dir)
}

// leftMounts fails the test for mounts in the state directory that the server
// left, and takes them away.
func (w *workspace) leftMounts() {
	points := mountpoints(w.t)
	slices.Reverse(points)
	for _, p := range points {
		if strings.HasPrefix(p, w.state+"/") {
			w.t.Errorf("mount left behind: %s", p)
			_ = syscall.Unmount(p, syscall.MNT_DETACH) // the error is reported above
		}
	}
}

// mountpoints returns this process' mountpoints in the order of mounting.
func mountpoints(t *testing.T) (points []string) {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 4 {
			points = append(points, f[4])
		}
	}
	return points
}

// command returns the program with an environment that is the same on every
// machine, its working directory dir, ended if it hangs.
func command(t *testing.T, dir, name string, args ...string) *osexec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := osexec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
