package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ordinary is a user without privileges.
const ordinary = 1000

// asOrdinaryUser returns a client command that runs as an ordinary user on a
// directory of that user's.
func asOrdinaryUser(t *testing.T, op string) *osexec.Cmd {
	t.Helper()
	needMount(t)
	_, err := osexec.LookPath("fusermount3")
	need(t, "fusermount3", err == nil)
	// The test's own directories are for root only.
	dir, err := os.MkdirTemp("/tmp", "transport-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "client")
	copyProgram(t, testBinary(t), binary)
	point := filepath.Join(dir, "mount point, 1")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chown(point, ordinary, ordinary)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := clientCommand(binary, "as-user", point, op, filepath.Join(dir, "device"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// clientAsUser becomes a client that runs as an ordinary user, in a mount
// namespace of its own in which everybody may open /dev/fuse: distributions
// have it so, but not every machine.
func clientAsUser(point, op, device string) int {
	err := unix.Mknod(device, unix.S_IFCHR, int(unix.Mkdev(10, 229)))
	if err == nil {
		err = os.Chmod(device, 0o666)
	}
	if err == nil {
		err = unix.Mount(device, "/dev/fuse", "", unix.MS_BIND, "")
	}
	if err == nil {
		err = syscall.Setgroups(nil)
	}
	if err == nil {
		err = syscall.Setgid(ordinary)
	}
	if err == nil {
		err = syscall.Setuid(ordinary)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", []string{"client", op, point}, os.Environ())
	}
	fmt.Println(err)
	return 1
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

// clientUser mounts and unmounts as whoever runs it, through fusermount3.
func clientUser(dir string) int {
	for i := range 6 {
		if err := userOnce(dir, i); err != nil {
			fmt.Printf("round %d: %v\n", i, err)
			return 1
		}
	}
	fmt.Println("done")
	return 0
}

func userOnce(dir string, round int) error {
	opts := testOptions()
	opts.AllowOther = false // /etc/fuse.conf usually forbids it
	s, err := Mount(dir, newTestFS(), opts, Options{Plain: round == 0})
	if err != nil {
		return err
	}
	go s.Serve()
	if err := s.WaitMount(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/file", &st); err != nil {
		return err
	}
	if _, err := Mount(dir, newTestFS(), opts, Options{}); !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("second Mount: got %v, want EBUSY", err)
	}
	fd, err := unix.Open(dir+"/file", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := s.Unmount(); !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("Unmount while in use: got %v, want EBUSY", err)
	}
	if round%2 == 1 {
		// In use: detached, and then served to the last close.
		done := make(chan error, 1)
		go func() { done <- s.Detach() }()
		unix.Close(fd)
		return <-done
	}
	unix.Close(fd)
	return s.Unmount()
}

// clientUserDead has two servers of its own die on one mountpoint and then
// takes the mount off.
func clientUserDead(dir string) int {
	for range 2 {
		if err := serveAndDie(dir); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	table, err := mountTable("self")
	mounts := 0
	for _, e := range table {
		if e.point == dir {
			mounts++
		}
	}
	if err != nil || mounts != 1 {
		fmt.Printf("two dead servers left %d mounts (%v), want 1\n", mounts, err)
		return 1
	}
	if err := Unmount(dir, true); err != nil || Stale(dir) {
		fmt.Printf("Unmount: %v\n", err)
		return 1
	}
	fmt.Println("done")
	return 0
}

// serveAndDie runs a server until it serves and kills it.
func serveAndDie(dir string) error {
	server := clientCommand("/proc/self/exe", "serve-own", dir)
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	line := bufio.NewScanner(out)
	if !line.Scan() || line.Text() != "serving" {
		return fmt.Errorf("server: got %q, want serving", line.Text())
	}
	if err := server.Process.Kill(); err != nil {
		return err
	}
	server.Wait()
	return nil
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	start(t, asOrdinaryUser(t, "user")).expect(t, "done")
}

func TestOrdinaryUserReplacesItsDeadMount(t *testing.T) {
	t.Parallel()
	start(t, asOrdinaryUser(t, "user-dead")).expect(t, "done")
}

func TestHelperErrno(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want syscall.Errno
	}{
		{"fusermount3: failed to unmount /x: Device or resource busy", syscall.EBUSY},
		{"fusermount3: entry for /x not found in /etc/mtab", syscall.EINVAL},
		{"fusermount3: failed to access mountpoint /x: Permission denied", syscall.EACCES},
		{"fusermount3: bad mount point /x: No such file or directory", syscall.ENOENT},
		{"fusermount3: bad mount point /x: Transport endpoint is not connected", syscall.ENOTCONN},
		{"fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf", syscall.EPERM},
		{"", syscall.EPERM},
	} {
		if got := helperErrno(c.text); got != c.want {
			t.Errorf("helperErrno(%q): got %v, want %v", c.text, got, c.want)
		}
	}
}

func TestHelperOptionsAreEscaped(t *testing.T) {
	t.Parallel()
	opts := testOptions()
	opts.FsName = `/a,b\c`
	got := helperOptions(withMountDefaults(opts))
	want := `default_permissions,allow_other,fsname=/a\,b\\c,subtype=wsfs-test,max_read=1048576`
	if got != want {
		t.Errorf("helperOptions: got %s, want %s", got, want)
	}
}

func TestMountTableIsParsed(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		`29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw`,
		`51 29 0:48 /sub /a\040b\134c rw,nosuid master:2 propagate_from:3 - fuse.wsfs src rw,user_id=0`,
		`garbage`,
	}, "\n")
	got := parseMountTable(text)
	want := []mountEntry{{"254:0", "/", "ext4"}, {"0:48", `/a b\c`, "fuse.wsfs"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("parseMountTable: got %+v, want %+v", got, want)
	}
}

func TestMappedFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, path string
		ok         bool
	}{
		{"7f0000-7f1000 r--s 00000000 00:30 2                          /m/a b (deleted)", "/m/a b (deleted)", true},
		{"7f0000-7f1000 r--s 00000000 fe:00 2                          /m/f", "", false},
		{"7f0000-7f1000 rw-p 00000000 00:00 0 ", "", false},
		{"nonsense", "", false},
	} {
		path, ok := mappedFile(c.line, "0:48")
		if path != c.path || ok != c.ok {
			t.Errorf("mappedFile(%q): got %q, %v, want %q, %v", c.line, path, ok, c.path, c.ok)
		}
	}
}

func TestConnectionOf(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"pos:\t0\nflags:\t02100002\nmnt_id:\t24\nfuse_connection:\t54\n": "0:54",
		"pos:\t0\nmnt_id:\t24\n": "",
	} {
		if got := connectionOf(info); got != want {
			t.Errorf("connectionOf(%q): got %q, want %q", info, got, want)
		}
	}
}

func FuzzProcFiles(f *testing.F) {
	f.Add(`51 29 0:48 /sub /a\040b rw - fuse.wsfs src rw`)
	f.Add("7f0000-7f1000 r--s 00000000 00:30 2 /m/a b")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range parseMountTable(text) {
			if e.device == "" || e.fstype == "" {
				t.Errorf("parseMountTable(%q): got an entry without device or type: %+v", text, e)
			}
		}
		if path, ok := mappedFile(text, "0:48"); ok && path == "" {
			t.Errorf("mappedFile(%q): got no path", text)
		}
	})
}
