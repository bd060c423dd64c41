package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openBlocking has a client open the named files and waits until all handlers
// block. It returns where the outcomes come: "" or an error's text.
//
// The client is another process: this one, killed while its own threads wait
// for its own answers, could not even end.
func openBlocking(t *testing.T, fs *testFS, dir string, names []string) <-chan string {
	t.Helper()
	c := startClient(t, append([]string{"open", dir}, names...)...)
	outcomes := make(chan string, len(names))
	go func() {
		for c.out.Scan() {
			outcomes <- c.out.Text()
		}
	}()
	for range names {
		<-fs.entered
	}
	return outcomes
}

func blockNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("block%d", i))
	}
	return names
}

// eventually waits for what, for as long as a test may take.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !f() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after 30 s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestHandlersThatBlockDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			t.Parallel()
			const blocked = 20
			fs := newTestFS(blockNames(blocked)...)
			s := serve(t, fs, Options{Readers: readers})
			errs := openBlocking(t, fs, s.Mountpoint(), blockNames(blocked))
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(s.Mountpoint(), "file"), &st); err != nil {
				t.Errorf("Stat while %d handlers block: %v", blocked, err)
			}
			if got := s.Stats().Spares; got < blocked-readers {
				t.Errorf("spares while %d handlers block: got %d, want at least %d", blocked, got, blocked-readers)
			}
			close(fs.release)
			for range blocked {
				if got := <-errs; got != "" {
					t.Errorf("Open of a file that blocked: got %q, want no error", got)
				}
			}
			// A spare that is not needed goes after its next request.
			eventually(t, "spares are gone", func() bool {
				return unix.Stat(filepath.Join(s.Mountpoint(), "file"), &st) == nil && s.Stats().Spares == 0
			})
			if got := s.Stats().Readers; got != readers {
				t.Errorf("readers afterwards: got %d, want %d", got, readers)
			}
		})
	}
}

func TestSparesAreBounded(t *testing.T) {
	t.Parallel()
	fs := newTestFS(blockNames(5)...)
	s := serve(t, fs, Options{Readers: 1, Spares: 3})
	errs := openBlocking(t, fs, s.Mountpoint(), blockNames(4))
	fifth := startClient(t, "open", s.Mountpoint(), "block4")
	if got := s.Stats(); got.Readers != 4 || got.Spares != 3 {
		t.Errorf("with 4 of 5 handlers blocked: got %d readers, %d spares, want 4 and 3", got.Readers, got.Spares)
	}
	close(fs.release)
	for range 4 {
		<-errs
	}
	fifth.expect(t, "")
}

func TestUnmountCancelsRequestsInFlight(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fs := newTestFS(blockNames(8)...)
			s := serve(t, fs, o)
			errs := openBlocking(t, fs, s.Mountpoint(), blockNames(8))
			if err := s.Unmount(); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("Unmount with 8 opens waiting: got %v, want EBUSY", err)
			}
			if err := s.Abort(); err != nil {
				t.Fatalf("Abort: %v", err)
			}
			for range 8 {
				<-fs.cancelled
				if got := <-errs; got == "" {
					t.Errorf("Open that waited when the connection was aborted: got no error")
				}
			}
			<-fs.unmounted
		})
	}
}

func TestInterruptReachesTheHandler(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fs := newTestFS("block")
			s := serve(t, fs, o)
			c := startClient(t, "cat", filepath.Join(s.Mountpoint(), "block"))
			<-fs.entered
			if err := c.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if got := <-fs.cancelled; got != "block" {
				t.Errorf("cancelled: got %q, want block", got)
			}
		})
	}
}

func TestStatsCountRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, newTestFS(), Options{})
	for range 10 {
		if _, err := os.Stat(filepath.Join(s.Mountpoint(), "absent")); err == nil {
			t.Fatal("Stat of an absent file: got nil")
		}
	}
	eventually(t, "10 lookups are counted", func() bool {
		for _, op := range s.Stats().Ops {
			var n uint64
			for _, c := range op.Latency {
				n += c
			}
			if n != op.Count {
				t.Errorf("%s: histogram has %d of %d requests", op.Op, n, op.Count)
			}
			if op.Op == "LOOKUP" && op.Errors >= 10 && op.Count >= 10 && op.Total > 0 {
				return true
			}
		}
		return false
	})
}

func TestManyClients(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := serve(t, newTestFS(), o)
			for _, op := range []string{"getattr", "read", "create"} {
				if out, err := runClient(t, "bench", s.Mountpoint(), op, "64", "200ms"); err != nil || strings.Contains(out, "create") {
					t.Errorf("64 clients of %s: %v: %s", op, err, out)
				}
			}
		})
	}
}

func TestOneProcessor(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	cmd := clientCommand(testBinary(t), "serve", dir)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	server := start(t, cmd)
	server.expect(t, "serving")
	for _, op := range []string{"getattr", "create"} {
		if out, err := runClient(t, "bench", dir, op, "8", "200ms"); err != nil {
			t.Errorf("8 clients of %s: %v: %s", op, err, out)
		}
	}
	server.in.Close()
	if err := server.Wait(); err != nil {
		t.Errorf("server after Unmount: %v", err)
	}
}

func TestStoppedServerGoesOn(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	server := startClient(t, "serve", dir)
	server.expect(t, "serving")
	for range 20 {
		load := startClient(t, "bench", dir, "create", "4", "30ms")
		if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := server.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if !load.out.Scan() {
			t.Fatalf("clients of a server that was stopped: %v", load.out.Err())
		}
		if err := load.Wait(); err != nil {
			t.Fatalf("clients of a server that was stopped: %v", err)
		}
	}
	server.in.Close()
	if err := server.Wait(); err != nil {
		t.Errorf("server after Unmount: %v", err)
	}
}
