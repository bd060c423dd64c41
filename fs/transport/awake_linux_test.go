package transport

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVigil(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "latency")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v := &vigil{file: file, fd: -1, log: slog.Default()}
	for _, awake := range []bool{false, true, true, false, false, true, false} {
		v.keep(awake)
		if got := v.fd >= 0; got != awake {
			t.Errorf("after keep(%v): file is open: %v", awake, got)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "\x00\x00\x00\x00" {
		t.Errorf("asked for: got %q, %v, want four zero bytes", got, err)
	}

	v.file = filepath.Join(t.TempDir(), "absent")
	v.keep(true)
	if v.fd >= 0 || v.file != "" {
		t.Errorf("after a refusal: got fd %d, file %q, want none", v.fd, v.file)
	}
}

// TestIdleCPUsStayAwakeWhileRequestsCome looks at what a server process has
// open: the latency file while it is busy on a virtual machine's CPUs and may
// open it, and never otherwise.
func TestIdleCPUsStayAwakeWhileRequestsCome(t *testing.T) {
	t.Parallel()
	needMount(t)
	dir := t.TempDir()
	server := startClient(t, "serve", dir)
	server.expect(t, "serving")
	fds := fmt.Sprintf("/proc/%d/fd", server.Process.Pid)
	load := startClient(t, "bench", dir, "getattr", "1", "2s")
	if v := newVigil(slog.Default()); v.file != "" && os.Geteuid() == 0 {
		eventually(t, "the latency file is open", func() bool { return hasOpen(t, fds, latencyFile) })
	}
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the latency file is closed", func() bool { return !hasOpen(t, fds, latencyFile) })
	server.in.Close()
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

// hasOpen reports whether a process has file open; fds is its /proc/PID/fd.
func hasOpen(t *testing.T, fds, file string) bool {
	t.Helper()
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(to, file) {
			return true
		}
	}
	return false
}
