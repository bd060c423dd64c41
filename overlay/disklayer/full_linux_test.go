package disklayer

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// small mounts a tmpfs with the options.
func small(t *testing.T, options string) place {
	t.Helper()
	need(t, "root")
	dir := t.TempDir()
	must(t, "mount", unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return place{dir + "/upper", dir + "/work"}
}

// A copy-up that finds the disk full leaves nothing behind, and deleting works.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	at, p, ctx := small(t, "size=1m"), newProject(t), t.Context()
	put0(t, p.dir, "big", string(make([]byte, 100))+text+text+text+text+text+text+text+text+text)
	put0(t, p.dir, "small", "small")
	u := at.open(t, Options{})
	write(t, u, "mine", "mine")
	want(t, "CopyUp on a full disk", p.copyUp(t, u, "big"), syscall.ENOSPC)
	_, err := u.Lstat(ctx, "big")
	want(t, "Lstat after the copy failed", err, syscall.ENOENT)
	entries, err := os.ReadDir(at.work + "/" + newName)
	if err != nil || len(entries) != 1 {
		t.Errorf("the work directory holds %v, %v; want the whiteout alone", entries, err)
	}
	w, err := u.OpenFile(ctx, "fill", overlay.Create, perm(0o600))
	must(t, "OpenFile", err)
	for off := int64(0); err == nil; off += 4096 {
		_, err = w.WriteAt(make([]byte, 4096), off)
	}
	want(t, "WriteAt until the disk is full", err, syscall.ENOSPC)
	must(t, "Close", w.Close())
	must(t, "Whiteout on a full disk", u.Whiteout(ctx, "mine"))
	must(t, "Whiteout on a full disk", u.Whiteout(ctx, "small"))
	must(t, "Remove on a full disk", u.Remove(ctx, "fill"))
	must(t, "CopyUp", u.CopyUp(ctx, "d", overlay.Copy{Attr: overlay.Attr{Mode: overlay.TypeDir | 0o755}, Origin: 1}))
	must(t, "Check", u.Check(ctx))
	must(t, "Close", u.Close())
}

// A layer on a full disk closes: that it cannot note the clean end loses nothing.
func TestCloseOnFullDisk(t *testing.T) {
	t.Parallel()
	at, ctx := small(t, "size=1m"), t.Context()
	u := at.open(t, Options{})
	write(t, u, "mine", "mine")
	must(t, "Link", u.Link(ctx, "mine", "too"))
	w, err := u.OpenFile(ctx, "fill", overlay.Create, perm(0o600))
	must(t, "OpenFile", err)
	for off := int64(0); err == nil; off += 4096 {
		_, err = w.WriteAt(make([]byte, 4096), off)
	}
	want(t, "WriteAt until the disk is full", err, syscall.ENOSPC)
	must(t, "Close of the file", w.Close())
	must(t, "Close on a full disk", u.Close())

	u = at.open(t, Options{})
	must(t, "Check", u.Check(ctx))
	for _, name := range []overlay.Name{"mine", "too"} {
		if a, err := u.Lstat(ctx, name); err != nil || a.Nlink != 2 || a.Size != 4 {
			t.Errorf("Lstat(%q) after Close on a full disk: %+v, %v", name, a, err)
		}
	}
	must(t, "Remove", u.Remove(ctx, "fill"))
	must(t, "Close", u.Close())
}

func TestNoInodesLeft(t *testing.T) {
	t.Parallel()
	at, ctx := small(t, "nr_inodes=64"), t.Context()
	u := at.open(t, Options{})
	write(t, u, "mine", "mine")
	must(t, "Mkdir", u.Mkdir(ctx, "dir", perm(0o755)))
	must(t, "Whiteout", u.Whiteout(ctx, "dir/w"))
	var err error
	for i := 0; err == nil; i++ {
		err = u.Mkdir(ctx, overlay.Name("d").Join(string(rune('a'+i%26))+string(rune('a'+i/26))), perm(0o755))
		if i == 0 {
			want(t, "Mkdir without a parent", err, syscall.ENOENT)
			must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
			err = nil
		}
	}
	want(t, "Mkdir until there is no inode", err, syscall.ENOSPC)
	// A link to the one whiteout takes an inode's worth of space on tmpfs alone.
	must(t, "Remove", u.Remove(ctx, "d/ba"))
	must(t, "Whiteout of a file", u.Whiteout(ctx, "mine"))
	must(t, "Remove of a directory", u.Remove(ctx, "dir"))
	must(t, "Check", u.Check(ctx))
	must(t, "Close", u.Close())
}

// With no descriptor to spare, cached directories make room.
func TestDescriptorsRunOut(t *testing.T) {
	// Not parallel: the limit is the process'.
	u, ctx := newUpper(t), t.Context()
	for _, name := range []overlay.Name{"a", "b", "c", "d", "e"} {
		must(t, "Mkdir", u.Mkdir(ctx, name, perm(0o755)))
		write(t, u, name.Join("f"), string(name))
	}
	var old syscall.Rlimit
	must(t, "Getrlimit", syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	for _, name := range []overlay.Name{"a", "b", "c", "d", "e"} {
		_, err := u.Lstat(ctx, name.Join("f")) // caches the directory
		must(t, "Lstat", err)
	}
	probe, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, "Open", err)
	unix.Close(probe)
	must(t, "Setrlimit", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(probe), Max: old.Max}))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	var held []overlay.Handle
	for range 3 {
		h, err := u.Open(ctx, "a/f")
		must(t, "Open without a descriptor to spare", err)
		held = append(held, h)
	}
	for _, h := range held {
		must(t, "Close", h.Close())
	}
}
