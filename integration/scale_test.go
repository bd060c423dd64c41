//go:build linux

package integration

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scaleFiles is how many files TestScale's project has, unless WSFS_SCALE says
// otherwise.
const scaleFiles = 20_000

// memoryPerFile is what the server may take for a file it was asked of, beside
// idleMemory: 1 GiB for a million.
const (
	memoryPerFile = 900
	idleMemory    = 160 << 20
)

// TestScale walks a large project through the mount, cold and warm, beside the
// host's own walk, and looks at the server's memory.
func TestScale(t *testing.T) {
	need(t, "fuse", "root")
	project := t.TempDir()
	want := number(t, "WSFS_SCALE", scaleFiles)
	for i := range want {
		name := filepath.Join(project, fmt.Sprintf("d%d/d%d/f%d.go", i/1024, i/32%32, i))
		if i%32 == 0 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorkspace(t, project)
	began := time.Now()
	w.mount()
	t.Logf("%d files: mounted after %v", want, time.Since(began))
	for _, cold := range []bool{true, false} {
		host := walk(t, project, cold, want)
		mount := walk(t, w.dir, cold, want)
		t.Logf("cold %v: the host's walk %v, the mount's %v: %.2f", cold, host, mount, float64(mount)/float64(host))
	}
	memory := memoryOf(t, w.server.Process.Pid)
	t.Logf("the server takes %d MiB, %.0f bytes for a file", memory>>20, float64(memory)/float64(want))
	if limit := int64(want)*memoryPerFile + idleMemory; memory > limit {
		t.Errorf("memory after a walk: got %d MiB, want at most %d", memory>>20, limit>>20)
	}
}

// walk stats every file below dir, with the kernel's caches dropped if cold, and
// returns how long it took.
func walk(t *testing.T, dir string, cold bool, want int) time.Duration {
	t.Helper()
	if cold {
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	began := time.Now()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil && strings.HasSuffix(path, ".go") && info.Mode().IsRegular() {
			files++
		}
		return err
	})
	if err != nil || files != want {
		t.Fatalf("walk of %s: got %d files, %v; want %d", dir, files, err, want)
	}
	return time.Since(began)
}

// memoryOf returns the resident memory of a process in bytes.
func memoryOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
