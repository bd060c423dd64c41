//go:build linux

package fs_test

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/fs/transport"
	"github.com/wsfs/wsfs/overlay"
)

// TestMain lets the test binary do the work of a child process: the process
// that serves a mount must not, for instance, map a file of it.
func TestMain(m *testing.M) {
	syscall.Umask(0)
	if name := os.Getenv("WSFS_CHILD"); name != "" {
		os.Exit(child(name, os.Args[1:]))
	}
	signal.Ignore(syscall.SIGXFSZ)
	os.Exit(m.Run())
}

// need skips a test that needs what the machine does not have, unless
// WSFS_REQUIRE lists it: then it fails.
func need(t testing.TB, what string, have bool) {
	t.Helper()
	switch {
	case have:
	case slices.Contains(strings.Split(os.Getenv("WSFS_REQUIRE"), ","), what):
		t.Fatalf("WSFS_REQUIRE lists %s, and it is not there", what)
	default:
		t.Skipf("needs %s", what)
	}
}

// mounted is a mounted FS.
type mounted struct {
	*fs.FS
	dir    string
	server server
}

// A server is a transport: that of package transport, or go-fuse's own.
type server interface {
	Serve()
	WaitMount() error
	Unmount() error
}

// plain has the mounts served by go-fuse's fuse.Server.
var plain = flag.Bool("plain", false, "serve with go-fuse's fuse.Server")

// serveOn mounts raw, which f answers, on dir.
func serveOn(dir string, f *fs.FS, raw fuse.RawFileSystem) (server, error) {
	if *plain {
		return fuse.NewServer(raw, dir, f.MountOptions())
	}
	s, err := transport.Mount(dir, raw, f.MountOptions(), transport.Options{})
	if err != nil {
		return nil, err
	}
	f.Attach(s)
	f.Init(nil)
	return s, nil
}

// mount serves layer on a directory of the test's own.
func mount(t testing.TB, layer overlay.Layer, opt fs.Options) *mounted {
	t.Helper()
	opt.AllowOther = true
	return mountRaw(t, fs.New(layer, opt), func(f *fs.FS) fuse.RawFileSystem { return f })
}

// mountRaw serves what wrap makes of f.
func mountRaw(t testing.TB, f *fs.FS, wrap func(*fs.FS) fuse.RawFileSystem) *mounted {
	t.Helper()
	_, err := os.Stat("/dev/fuse")
	need(t, "fuse", err == nil)
	need(t, "root", os.Geteuid() == 0)
	m := &mounted{FS: f, dir: openDir(t)}
	m.server, err = serveOn(m.dir, f, wrap(f))
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	go m.server.Serve()
	if err := m.server.WaitMount(); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := m.server.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
			syscall.Unmount(m.dir, syscall.MNT_DETACH)
		}
	})
	return m
}

// openDir returns a directory that every user can reach.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "wsfs-fs-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// path returns the path of name in the mount.
func (m *mounted) path(name string) string { return m.dir + "/" + name }

// ptr returns the address of b's first byte.
func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

// heap returns the bytes of reachable objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

type ctx = context.Context
