//go:build linux

package fs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// trouble is a layer whose Lstat of some names does something else.
type trouble struct {
	overlay.Layer
	lstat map[overlay.Name]func(ctx context.Context) error
}

func (l trouble) Unwrap() any { return l.Layer }

func (l trouble) Lstat(ctx context.Context, name overlay.Name) (overlay.Attr, error) {
	if fn := l.lstat[name]; fn != nil {
		if err := fn(ctx); err != nil {
			return overlay.Attr{}, err
		}
	}
	return l.Layer.Lstat(ctx, name)
}

// TestErrnos checks what errno the kernel is told of a layer's error.
func TestErrnos(t *testing.T) {
	t.Parallel()
	about := func(err error) error { return &iofs.PathError{Op: "lstat", Path: "x", Err: err} }
	for _, c := range []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"an errno", about(syscall.EDQUOT), syscall.EDQUOT},
		{"an errno inside a wrapped error", fmt.Errorf("layer: %w", about(syscall.ENOTEMPTY)), syscall.ENOTEMPTY},
		{"ENOTEMPTY, which is fs.ErrExist, too", about(syscall.ENOTEMPTY), syscall.ENOTEMPTY},
		{"ENOSYS, which the kernel would remember", about(syscall.ENOSYS), syscall.EOPNOTSUPP},
		{"no ability", about(errors.ErrUnsupported), syscall.EOPNOTSUPP},
		{"permission", about(iofs.ErrPermission), syscall.EACCES},
		{"invalid", about(iofs.ErrInvalid), syscall.EINVAL},
		{"a deadline", about(context.DeadlineExceeded), syscall.ETIMEDOUT},
		{"an interruption", about(context.Canceled), syscall.EINTR},
		{"anything else", errors.New("the store is on fire"), syscall.EIO},
	} {
		var log bytes.Buffer
		layer := trouble{memTree(t), map[overlay.Name]func(context.Context) error{"x": func(context.Context) error { return c.err }}}
		f := fs.New(layer, fs.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		f.Init(nil)
		var out fuse.EntryOut
		if got := f.Lookup(nil, &fuse.InHeader{NodeId: 1}, "x", &out); syscall.Errno(got) != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if lines := strings.Count(log.String(), "\n"); (lines == 1) != (c.want == syscall.EIO) {
			t.Errorf("%s: got %d lines of log", c.name, lines)
		}
	}
}

// TestPanic checks that a handler that panics fails with EIO and holds nothing
// up afterwards.
func TestPanic(t *testing.T) {
	t.Parallel()
	layer := trouble{memTree(t, seed{"ok", 0o644, ""}), map[overlay.Name]func(context.Context) error{
		"x": func(context.Context) error { panic("a test") },
	}}
	m := mount(t, layer, fs.Options{Log: slog.New(slog.DiscardHandler)})
	for range 3 {
		if _, err := os.Lstat(m.path("x")); !errors.Is(err, syscall.EIO) {
			t.Errorf("Lstat(x), whose handler panics: got %v, want EIO", err)
		}
	}
	must(t, os.Rename(m.path("ok"), m.path("renamed"))) // takes the segment exclusively
	if _, err := os.Lstat(m.path("renamed")); err != nil {
		t.Errorf("Lstat(renamed) after a panic: %v", err)
	}
}

// TestReadOnly checks that nothing can be changed on a read-only mount, also
// past the kernel's own check.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	m := mount(t, memTree(t, seed{"f", 0o644, "text"}), fs.Options{ReadOnly: true})
	if got, err := os.ReadFile(m.path("f")); string(got) != "text" || err != nil {
		t.Errorf("ReadFile(f): got %q, %v", got, err)
	}
	for what, err := range map[string]error{
		"write":    os.WriteFile(m.path("f"), nil, 0o644),
		"mkdir":    os.Mkdir(m.path("d"), 0o755),
		"remove":   os.Remove(m.path("f")),
		"rename":   os.Rename(m.path("f"), m.path("g")),
		"chmod":    os.Chmod(m.path("f"), 0o600),
		"link":     os.Link(m.path("f"), m.path("g")),
		"symlink":  os.Symlink("f", m.path("g")),
		"setxattr": unix.Setxattr(m.path("f"), "user.a", nil, 0),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s on a read-only mount: got %v, want EROFS", what, err)
		}
	}
	var out fuse.EntryOut
	if st := m.Mkdir(nil, &fuse.MkdirIn{InHeader: fuse.InHeader{NodeId: 1}, Mode: 0o755}, "d", &out); st != fuse.EROFS {
		t.Errorf("MKDIR: got %v, want EROFS", st)
	}
}

// TestSyncAndDirect opens files for synchronous and direct writes, before and
// while others have them open.
func TestSyncAndDirect(t *testing.T) {
	for _, pass := range []bool{true, false} {
		m := mount(t, kinds[len(kinds)-1].layer(t, seed{"f", 0o644, strings.Repeat("x", 8192)}), fs.Options{Passthrough: pass})
		block := alignedBlock()
		copy(block, "direct")
		for _, flags := range []int{unix.O_DIRECT, unix.O_SYNC, unix.O_DSYNC, unix.O_DIRECT | unix.O_SYNC} {
			fd, err := unix.Open(m.path("f"), unix.O_RDWR|flags|unix.O_CLOEXEC, 0)
			must(t, err)
			if n, err := unix.Pwrite(fd, block, 4096); n != len(block) || err != nil {
				t.Errorf("passthrough %v, open with %#x: Pwrite: got %d, %v", pass, flags, n, err)
			}
			got := alignedBlock()
			if n, err := unix.Pread(fd, got, 4096); n != len(got) || !bytes.Equal(got, block) {
				t.Errorf("passthrough %v, open with %#x: Pread: got %d, %v", pass, flags, n, err)
			}
			must(t, unix.Close(fd))
		}
		if got, err := os.ReadFile(m.path("f")); len(got) != 8192 || !bytes.Equal(got[4096:], block) {
			t.Errorf("passthrough %v: ReadFile: got %d bytes, %v", pass, len(got), err)
		}
	}
}

// alignedBlock returns a page that starts at a page.
func alignedBlock() []byte {
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return b
}

// TestFsyncDirectory makes the names in directories of every kind durable.
func TestFsyncDirectory(t *testing.T) {
	t.Parallel()
	m := mount(t, routedTree(t, seed{"lower/", 0o755, ""}), fs.Options{})
	must(t, os.Mkdir(m.path("upper"), 0o755))
	for _, name := range []string{".", "lower", "upper", "memory"} {
		dir, err := os.Open(m.path(name))
		must(t, err)
		if err := dir.Sync(); err != nil {
			t.Errorf("fsync of the directory %s: %v", name, err)
		}
		must(t, dir.Close())
	}
	dir, err := os.Open(m.path("upper"))
	must(t, err)
	defer dir.Close()
	must(t, os.Remove(m.path("upper")))
	if err := dir.Sync(); err != nil {
		t.Errorf("fsync of a removed directory: %v", err)
	}
}
