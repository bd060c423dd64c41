package disklayer

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Each benchmark has a bare part: the system calls that cannot be avoided.

func benchUpper(b *testing.B) *Upper {
	dir := b.TempDir()
	u, err := OpenUpper(dir+"/upper", dir+"/work", Options{SyncDelay: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { u.Close() })
	for _, d := range []overlay.Name{"a", "a/b", "a/b/c"} {
		if err := u.Mkdir(b.Context(), d, perm(0o755)); err != nil {
			b.Fatal(err)
		}
	}
	return u
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func bareDir(b *testing.B, u *Upper) int {
	fd, err := unix.Openat(u.root, "a/b/c", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(b, err)
	b.Cleanup(func() { unix.Close(fd) })
	return fd
}

func BenchmarkLstat(b *testing.B) {
	u := benchUpper(b)
	check(b, create0(u, b, "a/b/c/f"))
	fd := bareDir(b, u)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			_, err := lstat(fd, "f")
			check(b, err)
		}
	})
	b.Run("upper", func(b *testing.B) {
		for b.Loop() {
			_, err := u.Lstat(b.Context(), "a/b/c/f")
			check(b, err)
		}
	})
	d, err := u.dir("a/b/c")
	check(b, err)
	check(b, u.setImpure(d))
	u.cache.put(d)
	b.Run("impure", func(b *testing.B) {
		for b.Loop() {
			_, err := u.Lstat(b.Context(), "a/b/c/f")
			check(b, err)
		}
	})
}

func create0(u *Upper, b *testing.B, name overlay.Name) error {
	w, err := u.OpenFile(b.Context(), name, overlay.Create|overlay.Excl, perm(0o644))
	if err != nil {
		return err
	}
	return w.Close()
}

func BenchmarkCreateRemove(b *testing.B) {
	u := benchUpper(b)
	fd := bareDir(b, u)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			f, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
			check(b, err)
			unix.Close(f)
			check(b, unix.Unlinkat(fd, "f", 0))
		}
	})
	b.Run("upper", func(b *testing.B) {
		for b.Loop() {
			check(b, create0(u, b, "a/b/c/f"))
			check(b, u.Remove(b.Context(), "a/b/c/f"))
		}
	})
}

func BenchmarkRename(b *testing.B) {
	u := benchUpper(b)
	check(b, create0(u, b, "a/b/c/f"))
	fd := bareDir(b, u)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			check(b, unix.Renameat(fd, "f", fd, "g"))
			check(b, unix.Renameat(fd, "g", fd, "f"))
		}
	})
	b.Run("upper", func(b *testing.B) {
		for b.Loop() {
			check(b, u.Rename(b.Context(), "a/b/c/f", "a/b/c/g", 0))
			check(b, u.Rename(b.Context(), "a/b/c/g", "a/b/c/f", 0))
		}
	})
}

func BenchmarkReadDir(b *testing.B) {
	u := benchUpper(b)
	for i := range 1000 {
		check(b, create0(u, b, overlay.Name(fmt.Sprintf("a/b/c/f%d", i))))
	}
	b.Run("bare", func(b *testing.B) {
		buf := make([]byte, 32<<10)
		for b.Loop() {
			fd, err := unix.Openat(u.root, "a/b/c", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			check(b, err)
			for n := 1; n > 0; {
				n, err = unix.Getdents(fd, buf)
				check(b, err)
			}
			unix.Close(fd)
		}
	})
	b.Run("upper", func(b *testing.B) {
		for b.Loop() {
			_, err := u.ReadDir(b.Context(), "a/b/c")
			check(b, err)
		}
	})
}

// BenchmarkCopyUp compares a copy-up of 8 KiB with a copy, an fsync and a rename,
// which is what the kernel's overlayfs does.
func BenchmarkCopyUp(b *testing.B) {
	u := benchUpper(b)
	dir := b.TempDir()
	check(b, os.WriteFile(dir+"/f", make([]byte, 0), 0o644))
	data := make([]byte, 8192)
	for i := range data {
		data[i] = byte(i)
	}
	check(b, os.WriteFile(dir+"/f", data, 0o644))
	h, err := OpenHost(dir, Options{})
	check(b, err)
	defer h.Close()
	a, err := h.Lstat(b.Context(), "f")
	check(b, err)
	fd := bareDir(b, u)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			f, err := unix.Openat(fd, "tmp", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
			check(b, err)
			check(b, writeAll(f, data, 0))
			check(b, unix.Renameat(fd, "tmp", fd, "f"))
			unix.Close(f)
			check(b, unix.Unlinkat(fd, "f", 0))
		}
	})
	b.Run("upper", func(b *testing.B) {
		for b.Loop() {
			from, err := h.Open(b.Context(), "f")
			check(b, err)
			check(b, u.CopyUp(b.Context(), "a/b/c/f", overlay.Copy{Attr: a, From: from, Origin: a.Ino, Layer: "p", Name: "f"}))
			check(b, from.Close())
			check(b, u.Remove(b.Context(), "a/b/c/f"))
		}
	})
	b.Run("fsync", func(b *testing.B) {
		for b.Loop() {
			f, err := unix.Openat(fd, "tmp", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
			check(b, err)
			check(b, writeAll(f, data, 0))
			check(b, unix.Fsync(f))
			check(b, unix.Renameat(fd, "tmp", fd, "f"))
			unix.Close(f)
			check(b, unix.Unlinkat(fd, "f", 0))
		}
	})
}

func BenchmarkHostLstat(b *testing.B) {
	dir := b.TempDir()
	check(b, os.MkdirAll(dir+"/a/b/c", 0o755))
	check(b, os.WriteFile(dir+"/a/b/c/f", nil, 0o644))
	h, err := OpenHost(dir, Options{})
	check(b, err)
	defer h.Close()
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			_, err := lstat(h.root, "a/b/c/f")
			check(b, err)
		}
	})
	b.Run("unwatched", func(b *testing.B) {
		for b.Loop() {
			_, err := h.Lstat(b.Context(), "a/b/c/f")
			check(b, err)
		}
	})
	stop, err := h.Watch(b.Context(), "a/b/c", func(string) {})
	check(b, err)
	defer stop()
	b.Run("watched", func(b *testing.B) {
		for b.Loop() {
			_, err := h.Lstat(b.Context(), "a/b/c/f")
			check(b, err)
		}
	})
}
