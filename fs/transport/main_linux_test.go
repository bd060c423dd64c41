package transport

import (
	"bufio"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// clientMark makes the test binary a client: it works on a mount from outside
// the process that serves it.
const clientMark = "_TRANSPORT_TEST_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(clientMark) != "" {
		os.Exit(client(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// client does what args say and returns the exit code.
func client(args []string) int {
	op, dir := args[0], args[1]
	switch op {
	case "bench":
		return clientBench(args[2], dir, args[3], args[4])
	case "hold":
		return clientHold(dir)
	case "serve":
		return clientServe(dir, true)
	case "serve-own":
		return clientServe(dir, false)
	case "as-user":
		return clientAsUser(dir, args[2], args[3])
	case "user-dead":
		return clientUserDead(dir)
	case "user":
		return clientUser(dir)
	case "open":
		return clientOpen(dir, args[2:])
	case "idle":
		fmt.Println("idle")
		var b [1]byte
		os.Stdin.Read(b[:])
		return 0
	case "burn":
		//lint:ignore SA5002 it is there to keep a CPU busy
		for {
		}
	case "cat":
		b, err := os.ReadFile(dir)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		os.Stdout.Write(b)
		return 0
	}
	return 2
}

// clientHold holds the directory busy in every way until its input ends.
func clientHold(dir string) int {
	f, err := os.Open(filepath.Join(dir, "file"))
	if err == nil {
		_, err = unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("held")
	var b [1]byte
	os.Stdin.Read(b[:])
	return 0
}

// clientOpen opens the named files at the same time and prints a line for each:
// empty, or an error.
func clientOpen(dir string, names []string) int {
	lines := make(chan string)
	for _, name := range names {
		go func() {
			fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				lines <- err.Error()
				return
			}
			lines <- ""
			unix.Close(fd)
		}()
	}
	for range names {
		fmt.Println(<-lines)
	}
	return 0
}

// clientServe serves a mount until it is unmounted, or until its input ends.
func clientServe(dir string, others bool) int {
	opts := testOptions()
	opts.AllowOther = others
	s, err := Mount(dir, newTestFS(), opts, Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		var b [1]byte
		os.Stdin.Read(b[:])
		if err := s.Unmount(); err != nil {
			fmt.Println(err)
		}
	}()
	fmt.Println("serving")
	s.Serve()
	return 0
}

// clientBench runs an operation in a number of threads for a time and prints
// how often it was done, and in how many microseconds.
func clientBench(what, dir, workers, length string) int {
	n, _ := strconv.Atoi(workers)
	d, err := time.ParseDuration(length)
	f := benchOps[what]
	if err != nil || f == nil {
		return 2
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	const batch = 4 // operations between two looks at the clock
	began := time.Now()
	end := began.Add(d)
	for i := range n {
		wg.Go(func() {
			var count int64
			for time.Now().Before(end) {
				for range batch {
					if err := f(dir, i); err != nil {
						fmt.Fprintln(os.Stderr, what, err)
						return
					}
				}
				count += batch
			}
			total.Add(count)
		})
	}
	wg.Wait()
	fmt.Println(total.Load(), time.Since(began).Microseconds())
	return 0
}

var benchOps = map[string]func(dir string, worker int) error{
	"getattr": func(dir string, _ int) error {
		var st unix.Stat_t
		return unix.Stat(dir+"/file", &st)
	},
	"read": func(dir string, _ int) error {
		fd, err := unix.Open(dir+"/file", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		var b [4096]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"sequential": func(dir string, _ int) error {
		fd, err := unix.Open(dir+"/big", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		b := make([]byte, 128<<10)
		for {
			if n, err := unix.Read(fd, b); n == 0 || err != nil {
				return err
			}
		}
	},
	"create": func(dir string, worker int) error {
		name := dir + "/new" + strconv.Itoa(worker)
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, []byte("twelve bytes")); err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
		return unix.Unlink(name)
	},
}

// A running is a client that has been started.
type running struct {
	*osexec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startClient runs the test binary as a client. It is killed with the test.
func startClient(t testing.TB, args ...string) *running {
	t.Helper()
	return start(t, clientCommand(testBinary(t), args...))
}

func clientCommand(binary string, args ...string) *osexec.Cmd {
	cmd := osexec.Command(binary, args...)
	cmd.Env = append(os.Environ(), clientMark+"=1")
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	return cmd
}

func start(t testing.TB, cmd *osexec.Cmd) *running {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &running{Cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// expect reads the client's next line, which has to be want.
func (r *running) expect(t testing.TB, want string) {
	t.Helper()
	if !r.out.Scan() || r.out.Text() != want {
		t.Fatalf("client %v: got %q, want %q", r.Args[1:], r.out.Text(), want)
	}
}

// runClient runs a client to its end and returns what it printed.
func runClient(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := clientCommand(testBinary(t), args...)
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func testBinary(t testing.TB) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// need skips the test where it lacks what it needs, and fails where
// WSFS_REQUIRE says that it must not.
func need(t testing.TB, what string, have bool) {
	t.Helper()
	if have {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("WSFS_REQUIRE"), ","), what) {
		t.Fatalf("%s is required (WSFS_REQUIRE) and not there", what)
	}
	t.Skipf("needs %s", what)
}

func needMount(t testing.TB) {
	t.Helper()
	need(t, "root", os.Geteuid() == 0)
	_, err := os.Stat("/dev/fuse")
	need(t, "fuse", err == nil)
}

func testOptions() *fuse.MountOptions {
	return &fuse.MountOptions{
		Name: "wsfs-test", AllowOther: true, DisableReadDirPlus: true, MaxBackground: 64, MaxReadAhead: 1 << 20, Options: []string{"default_permissions"},
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_DONT_MASK,
	}
}

// serve mounts fs on a new directory, serves it and unmounts it at the end of
// the test.
func serve(t testing.TB, fs fuse.RawFileSystem, o Options) *Server {
	t.Helper()
	needMount(t)
	s, err := Mount(t.TempDir(), fs, testOptions(), o)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	go s.Serve()
	t.Cleanup(func() {
		if err := s.Detach(); err != nil {
			t.Errorf("Detach after the test: %v", err)
		}
	})
	if err := s.WaitMount(); err != nil {
		t.Fatalf("WaitMount: %v", err)
	}
	return s
}
