package transport

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountsAt counts the mounts at point.
func mountsAt(t *testing.T, point string) int {
	t.Helper()
	table, err := mountTable("self")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range table {
		if e.point == point {
			n++
		}
	}
	return n
}

func TestKilledServerIsReplaced(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	for i := range 5 {
		server := startClient(t, "serve", dir)
		server.expect(t, "serving")
		if Stale(dir) {
			t.Fatalf("Stale while served: got true")
		}
		if got := mountsAt(t, dir); got != 1 {
			t.Fatalf("mounts after start %d: got %d, want 1", i, got)
		}
		// Cached attributes must not hide that the server is gone.
		var st unix.Stat_t
		if err := unix.Stat(dir+"/file", &st); err != nil {
			t.Fatalf("Stat while served: %v", err)
		}
		server.Process.Kill()
		server.Wait()
		if !Stale(dir) {
			t.Fatalf("Stale after kill -9: got false")
		}
	}
	if err := Detach(dir, "wsfs-other"); err != nil || mountsAt(t, dir) != 1 {
		t.Errorf("Detach of another type: got %v and %d mounts, want nil and 1", err, mountsAt(t, dir))
	}
	if err := Detach(dir, "wsfs-test"); err != nil || mountsAt(t, dir) != 0 {
		t.Errorf("Detach of a dead mount: got %v and %d mounts, want nil and 0", err, mountsAt(t, dir))
	}
	if err := Detach(dir, "wsfs-test"); err != nil {
		t.Errorf("Detach of nothing: got %v, want nil", err)
	}
}

func TestStackedDeadMountsAreTakenOff(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	for range 3 {
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
		if err := unix.Mount("x", dir, "fuse.wsfs-test", 0, data); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd) // now it is dead
	}
	if err := Detach(dir, "wsfs-test"); err != nil || mountsAt(t, dir) != 0 {
		t.Errorf("Detach of 3 dead mounts: got %v and %d mounts, want nil and 0", err, mountsAt(t, dir))
	}
}

func TestLivingMountIsNotReplaced(t *testing.T) {
	t.Parallel()
	s := serve(t, newTestFS(), Options{})
	_, err := Mount(s.Mountpoint(), newTestFS(), testOptions(), Options{})
	if !errors.Is(err, syscall.EBUSY) {
		t.Errorf("second Mount on a living one: got %v, want EBUSY", err)
	}
	if got := mountsAt(t, s.Mountpoint()); got != 1 {
		t.Errorf("mounts: got %d, want 1", got)
	}
	if err := Detach(s.Mountpoint(), "wsfs-test"); err != nil || mountsAt(t, s.Mountpoint()) != 1 {
		t.Errorf("Detach of a living mount: got %v and %d mounts, want nil and 1", err, mountsAt(t, s.Mountpoint()))
	}
}

func TestRacingMountsMakeOne(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	clients := make([]*running, 6)
	for i := range clients {
		clients[i] = startClient(t, "serve", dir)
	}
	served := 0
	for _, c := range clients {
		if c.out.Scan() && c.out.Text() == "serving" {
			served++
		}
	}
	if got := mountsAt(t, dir); served != 1 || got != 1 {
		t.Errorf("6 processes mounting on one directory: got %d servers, %d mounts, want 1 and 1", served, got)
	}
	if err := Unmount(dir, true); err != nil {
		t.Errorf("Unmount: %v", err)
	}
}

func TestMountErrors(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	withOption := func(o string) []string { return []string{"default_permissions", o} }
	for _, c := range []struct {
		name, point string
		options     []string
		want        syscall.Errno
	}{
		{"absent", filepath.Join(dir, "absent"), nil, syscall.ENOENT},
		{"a file", file, nil, syscall.ENOTDIR},
		{"unknown option", dir, withOption("no_such_option"), syscall.EINVAL},
		{"suid", dir, withOption("suid"), syscall.EINVAL},
		{"dev", dir, withOption("dev"), syscall.EINVAL},
		{"two in one", dir, withOption("ro,dev"), syscall.EINVAL},
	} {
		opts := testOptions()
		opts.Options = c.options
		_, err := Mount(c.point, newTestFS(), opts, Options{})
		if !errors.Is(err, c.want) {
			t.Errorf("Mount on %s: got %v, want %v", c.name, err, c.want)
		}
		var pe *os.PathError
		if !errors.As(err, &pe) {
			t.Errorf("Mount on %s: got a %T, want a *fs.PathError", c.name, err)
		}
	}
	if got := mountsAt(t, dir); got != 0 {
		t.Errorf("mounts after failed ones: got %d, want 0", got)
	}
	if err := Unmount(dir, false); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Unmount of a directory: got %v, want EINVAL", err)
	}
}

func TestMountFlags(t *testing.T) {
	t.Parallel()
	needMount(t)
	opts := testOptions()
	opts.Options = append(opts.Options, "ro", "noexec")
	s, err := Mount(t.TempDir(), newTestFS(), opts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	defer s.Detach()
	var st unix.Statfs_t
	if err := unix.Statfs(s.Mountpoint(), &st); err != nil {
		t.Fatal(err)
	}
	want := int64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC)
	if st.Flags&want != want {
		t.Errorf("flags of a mount with ro,noexec: got %#x, want at least %#x", st.Flags, want)
	}
}

func TestMountAndUnmountConcurrently(t *testing.T) {
	t.Parallel()
	needMount(t)
	const workers, rounds = 8, 13
	var wg sync.WaitGroup
	for w := range workers {
		dir := t.TempDir()
		wg.Go(func() {
			for i := range rounds {
				if err := onceAround(dir, Options{Plain: w == 0, Readers: 1 + w%2}, i%3 == 0); err != nil {
					t.Errorf("worker %d, round %d: %v", w, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// onceAround mounts, looks at a file unless idle, and unmounts.
func onceAround(dir string, o Options, idle bool) (err error) {
	s, err := Mount(dir, newTestFS(), testOptions(), o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Detach())
		}
	}()
	if !idle {
		go s.Serve()
		if err := s.WaitMount(); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(dir+"/file", &st); err != nil {
			return err
		}
	}
	return unmountIdle(s)
}

// unmountIdle unmounts a mount that nobody uses but a child of a test that
// runs beside: it has this process' descriptors until its exec.
func unmountIdle(s *Server) error {
	late := time.Now().Add(30 * time.Second)
	for {
		err := s.Unmount()
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(late) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// TestNothingIsLeftBehind is not parallel: it counts what the process has.
func TestNothingIsLeftBehind(t *testing.T) {
	needMount(t)
	dir := t.TempDir()
	around := func() {
		for i := range 30 {
			if err := onceAround(dir, Options{Readers: 1 + i%2, Plain: i%5 == 0}, i%3 == 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	around()
	before := takeCensus(t)
	around()
	around()
	eventually(t, "goroutines and descriptors are as before", func() bool {
		now := takeCensus(t)
		return now.goroutines <= before.goroutines && now.fds <= before.fds && now.threads <= before.threads+4
	})
}

type census struct{ goroutines, fds, threads int }

func takeCensus(t *testing.T) census {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return census{goruntime.NumGoroutine(), len(fds), len(threads)}
}

func TestUnmountOfABusyMount(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o.Grace = 100 * time.Millisecond
			s := serve(t, newTestFS(), o)
			holder := startClient(t, "hold", s.Mountpoint())
			holder.expect(t, "held")
			if err := s.Unmount(); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("Unmount while held: got %v, want EBUSY", err)
			}
			users, err := Users(s.Mountpoint())
			if err != nil {
				t.Fatalf("Users: %v", err)
			}
			got := map[string]bool{}
			for _, u := range users {
				for _, use := range u.Uses {
					got[fmt.Sprintf("%d %.2s", u.PID, use.What)] = true
				}
			}
			for _, what := range []string{"cw", "fd", "ma"} {
				if key := fmt.Sprintf("%d %s", holder.Process.Pid, what); !got[key] || len(users) != 1 {
					t.Errorf("Users: got %+v, want one process %d with cwd, fd and map", users, holder.Process.Pid)
				}
			}
			by, served, err := ServedBy(s.Mountpoint(), testOptions().Name)
			if !served || err != nil || len(by) > 0 && by[0].PID != os.Getpid() {
				t.Errorf("ServedBy: got %+v, %v, %v, want this process %d, or none where the kernel does not tell", by, served, err, os.Getpid())
			}
			if by, served, err := ServedBy(s.Mountpoint(), "other"); served || err != nil {
				t.Errorf("ServedBy of another type: got %+v, %v, %v, want false", by, served, err)
			}
			if err := s.Detach(); err != nil {
				t.Errorf("Detach while held: %v", err)
			}
			if got := mountsAt(t, s.Mountpoint()); got != 0 {
				t.Errorf("mounts after Detach: got %d, want 0", got)
			}
		})
	}
}

func TestUnmountUnderLoad(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				s := serve(t, newTestFS(), o)
				cmd := clientCommand(testBinary(t), "bench", s.Mountpoint(), "create", "8", "10s")
				cmd.Stderr = nil // its calls fail when the mount goes
				load := start(t, cmd)
				eventually(t, "requests come", func() bool {
					var st unix.Stat_t
					return unix.Stat(s.Mountpoint()+"/new0", &st) == nil
				})
				if err := s.Detach(); err != nil {
					t.Errorf("Detach under load: %v", err)
				}
				load.Process.Kill()
			}
		})
	}
}

func TestSecondMountOnTopIsNotTakenOff(t *testing.T) {
	t.Parallel()
	s := serve(t, newTestFS(), Options{})
	if err := unix.Mount("none", s.Mountpoint(), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Unmount(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Unmount below another mount: got %v, want EBUSY", err)
	}
	if err := unix.Unmount(s.Mountpoint(), 0); err != nil {
		t.Errorf("Unmount of the one on top: %v", err)
	}
}

func TestUnmountDoesNotWaitForADeafHandler(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o.Grace = 50 * time.Millisecond
			fs := newTestFS("block-deaf")
			s := serve(t, fs, o)
			outcomes := openBlocking(t, fs, s.Mountpoint(), []string{"block-deaf"})
			if err := s.Detach(); !errors.Is(err, syscall.ETIMEDOUT) {
				t.Errorf("Detach with a handler that does not end: got %v, want ETIMEDOUT", err)
			}
			if got := <-outcomes; got == "" {
				t.Errorf("Open that waited for it: got no error")
			}
			close(fs.release)
			<-fs.unmounted
		})
	}
}

func TestUnmountWithACopyInAnotherNamespace(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o.Grace = time.Second
			fs := newTestFS()
			s := serve(t, fs, o)
			cmd := clientCommand(testBinary(t), "idle", "")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			start(t, cmd).expect(t, "idle")
			if err := unmountIdle(s); err != nil {
				t.Errorf("Unmount while another namespace has a copy: %v", err)
			}
			<-fs.unmounted
		})
	}
}
