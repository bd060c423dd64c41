//go:build linux

package fs_test

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
)

// counted counts the requests that a passthrough file must not make.
type counted struct {
	*fs.FS
	reads, writes, flushes atomic.Int64
}

func (c *counted) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	c.reads.Add(1)
	return c.FS.Read(cancel, in, buf)
}

func (c *counted) Writev(cancel <-chan struct{}, in *fuse.WriteIn, p [][]byte) (uint32, fuse.Status) {
	c.writes.Add(1)
	return c.FS.Writev(cancel, in, p)
}

func (c *counted) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	c.flushes.Add(1)
	return c.FS.Flush(cancel, in)
}

// mountCounted mounts a tree on disk and counts its requests.
func mountCounted(t *testing.T, project ...seed) (*mounted, *counted) {
	t.Helper()
	c := &counted{}
	tree, _ := diskTree(t, project...)
	m := mountRaw(t, fs.New(tree, fs.Options{Passthrough: true, AllowOther: true}), func(f *fs.FS) fuse.RawFileSystem {
		c.FS = f
		return c
	})
	return m, c
}

// TestPassthrough checks which files the kernel reads and writes itself.
func TestPassthrough(t *testing.T) {
	need(t, "passthrough", kernelAtLeast(6, 9))
	big := strings.Repeat("0123456789abcdef", 1<<16)
	m, c := mountCounted(t, seed{"big", 0o644, big}, seed{"lower", 0o644, "text"})
	write := func(name string, flags int, data string) {
		t.Helper()
		file, err := os.OpenFile(m.path(name), flags|os.O_WRONLY, 0o644)
		must(t, err)
		for _, part := range strings.SplitAfter(data, "\n") {
			_, err := file.WriteString(part)
			must(t, err)
		}
		must(t, file.Close())
	}
	expect := func(what string, reads, writes bool) {
		t.Helper()
		if got := c.reads.Swap(0) > 0; got != reads {
			t.Errorf("%s: read by request: %v, want %v", what, got, reads)
		}
		if got := c.writes.Swap(0) > 0; got != writes {
			t.Errorf("%s: written by request: %v, want %v", what, got, writes)
		}
	}
	read := func(name, want string) {
		t.Helper()
		got, err := os.ReadFile(m.path(name))
		if err != nil || string(got) != want {
			t.Errorf("ReadFile(%s): got %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	write("new", os.O_CREATE|os.O_EXCL, "a\nb\nc\n")
	expect("a file that is made", false, false)
	write("new", os.O_APPEND, "d\n")
	expect("a file that is appended to", false, false)
	write("lower", os.O_APPEND, "1\n2\n")
	expect("a project file that is copied up", false, false)
	read("lower", "text1\n2\n")
	expect("a small file that is read", true, false)
	read("lower", "text1\n2\n")
	expect("a small file that is read again", false, false)
	read("big", big)
	expect("a large file of the project", true, false)
	write("big", 0, "X")
	expect("a large file that is copied up", false, false)
	read("big", "X"+big[1:])
	expect("a large file of the upper layer", false, false)
	must(t, os.Chmod(m.path("new"), 0o4755|os.ModeSetuid))
	write("new", os.O_APPEND, "e\n")
	expect("a set-user-id file", false, true)
	if c.flushes.Load() > 0 {
		t.Errorf("local files: flushed by %d requests, want none", c.flushes.Load())
	}
}

// TestOpenFileKeepsItsMode has a reader through the page cache open a file
// before and while it is written.
func TestOpenFileKeepsItsMode(t *testing.T) {
	m, _ := mountCounted(t, seed{"f", 0o644, "12345678"})
	reader, err := os.Open(m.path("f"))
	must(t, err)
	b := make([]byte, 100)
	n, err := reader.ReadAt(b, 0)
	if string(b[:n]) != "12345678" {
		t.Fatalf("ReadAt: got %q, %v", b[:n], err)
	}
	writer, err := os.OpenFile(m.path("f"), os.O_RDWR, 0)
	must(t, err)
	_, err = writer.WriteAt([]byte("AB"), 2)
	must(t, err)
	if n, err := reader.ReadAt(b, 0); string(b[:n]) != "12AB5678" {
		t.Errorf("ReadAt after another's write: got %q, %v", b[:n], err)
	}
	must(t, reader.Close())
	must(t, writer.Close())
	// Nobody has it open, so the next one decides anew.
	writer, err = os.OpenFile(m.path("f"), os.O_RDWR, 0)
	must(t, err)
	_, err = writer.WriteAt([]byte("CD"), 8)
	must(t, err)
	reader, err = os.Open(m.path("f"))
	must(t, err)
	if n, err := reader.ReadAt(b, 0); string(b[:n]) != "12AB5678CD" {
		t.Errorf("ReadAt of a file that is passed through: got %q, %v", b[:n], err)
	}
	must(t, writer.Close())
	must(t, reader.Close())
	if got, err := os.ReadFile(m.path("f")); string(got) != "12AB5678CD" {
		t.Errorf("ReadFile in the end: got %q, %v", got, err)
	}
}

// TestMappingIsSeenByStat checks that stat tells of stores to a mapping of a
// passthrough file, which the daemon never hears of.
func TestMappingIsSeenByStat(t *testing.T) {
	m, _ := mountCounted(t)
	must(t, os.WriteFile(m.path("f"), bytes.Repeat([]byte("x"), 8192), 0o644))
	old, err := os.Stat(m.path("f"))
	must(t, err)
	run(t, 0, "mapstore", m.path("f"))
	now, err := os.Stat(m.path("f"))
	must(t, err)
	if !now.ModTime().After(old.ModTime()) {
		t.Errorf("mtime after a store to a mapping: got %v, before %v", now.ModTime(), old.ModTime())
	}
	if got, _ := os.ReadFile(m.path("f")); !bytes.HasPrefix(got, []byte("xyz")) {
		t.Errorf("ReadFile after a store to a mapping: got %q...", got[:10])
	}
}

// TestWritesAreSeenByStat checks that stat tells of writes to a passthrough
// file while and after it is open, though the kernel may keep its attributes.
func TestWritesAreSeenByStat(t *testing.T) {
	m, _ := mountCounted(t, seed{"lower", 0o644, "text"})
	for _, name := range []string{"new", "lower"} {
		for _, flags := range []int{os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR} {
			file, err := os.OpenFile(m.path(name), os.O_CREATE|flags, 0o644)
			must(t, err)
			for range 3 {
				before, err := os.Stat(m.path(name))
				must(t, err)
				_, err = file.Seek(0, io.SeekEnd)
				must(t, err)
				_, err = file.WriteString("y")
				must(t, err)
				if after, err := os.Stat(m.path(name)); err != nil || after.Size() != before.Size()+1 {
					t.Errorf("%s, flags %#x: size after a write: got %d, %v, before %d", name, flags, after.Size(), err, before.Size())
				}
			}
			must(t, file.Close())
			must(t, os.Chtimes(m.path(name), time.Time{}, time.Unix(1, 0)))
			must(t, os.WriteFile(m.path(name), []byte("z"), 0o644))
			if after, err := os.Stat(m.path(name)); err != nil || after.Size() != 1 || after.ModTime().Unix() == 1 {
				t.Errorf("%s: after WriteFile: got size %d, mtime %v, %v", name, after.Size(), after.ModTime(), err)
			}
		}
	}
}

// storeToMapping maps the file args[0], changes it and ends.
func storeToMapping(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	m, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(m, "xyz")
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		return err
	}
	return unix.Munmap(m)
}

// TestDescriptors opens, lists and forgets thousands of files: the daemon must
// have no more descriptors open afterwards than before.
func TestDescriptors(t *testing.T) {
	m, _ := mountCounted(t)
	must(t, os.WriteFile(m.path("warm"), nil, 0o644))
	count := func() int { return len(names(t, "/proc/self/fd")) }
	before := count()
	for i := range 3000 {
		name := m.path("f" + strconv.Itoa(i))
		must(t, os.WriteFile(name, []byte("x"), 0o644))
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all files are closed again", func() bool { return count() <= before+5 })
}

// kernelAtLeast reports whether Linux is of that version or newer.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	f := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	a, _ := strconv.Atoi(f[0])
	b, _ := strconv.Atoi(f[1])
	return a > major || a == major && b >= minor
}
