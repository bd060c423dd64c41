package layertest

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// A source is a lower file as CopyUp gets it.
type source struct {
	attr overlay.Attr
	io.ReaderAt
}

func (f source) Stat(context.Context) (overlay.Attr, error) { return f.attr, nil }
func (f source) Close() error                               { return nil }

// copyOf returns the copy of a regular file that holds text.
func copyOf(text string, mode uint32) overlay.Copy {
	a := overlay.Attr{
		Mode: overlay.TypeReg | mode, Nlink: 1, Size: int64(len(text)), Ino: 77,
		Atime: time.Unix(1, 1), Mtime: time.Unix(2, 2), Ctime: time.Unix(3, 3),
	}
	return overlay.Copy{Attr: a, From: source{a, strings.NewReader(text)}, Origin: 4711, Layer: "lower", Name: "lower/name"}
}

func (s suite) testCopyUp(t *testing.T) {
	u, dir := s.make(t)
	mkdir(t, u, "d")
	before := lstat(t, u, "d")
	file := copyOf("content", 0o4751)
	if s.can(Xattrs) {
		file.Xattrs = []overlay.Xattr{{Name: "user.x", Value: []byte{0, 1}}}
	}
	link := overlay.Copy{Attr: overlay.Attr{Mode: overlay.TypeLink | 0o777, Nlink: 1, Mtime: time.Unix(2, 2)}, Target: "to", Origin: 4712}
	sub := overlay.Copy{Attr: overlay.Attr{Mode: overlay.TypeDir | 0o2710, Nlink: 3, Mtime: time.Unix(4, 4)}, Origin: 4713}
	ok(t, "CopyUp of a file", u.CopyUp(ctx, "d/f", file))
	ok(t, "CopyUp of a link", u.CopyUp(ctx, "d/l", link))
	ok(t, "CopyUp of a directory", u.CopyUp(ctx, "d/s", sub))
	if after := lstat(t, u, "d"); !after.Mtime.Equal(before.Mtime) {
		t.Errorf("the parent's mtime after CopyUp: got %v, want %v", after.Mtime, before.Mtime)
	}
	if s.Reopen != nil {
		u = s.Reopen(t, dir, u)
	}
	wantRead(t, u, "d/f", "content")
	a := lstat(t, u, "d/f")
	if a.Mode != file.Attr.Mode || a.Origin != 4711 || !a.Mtime.Equal(time.Unix(2, 2)) || a.Nlink != 1 {
		t.Errorf("the copy: got mode %o, origin %d, mtime %v, nlink %d", a.Mode, a.Origin, a.Mtime, a.Nlink)
	}
	if s.can(Xattrs) {
		if got, err := as[overlay.Xattrer](t, u).Getxattr(ctx, "d/f", "user.x"); string(got) != "\x00\x01" || err != nil {
			t.Errorf("the copy's attribute: got %q, %v", got, err)
		}
	}
	if got, err := u.Readlink(ctx, "d/l"); got != "to" || err != nil {
		t.Errorf("the copied link: got %q, %v", got, err)
	}
	if a := lstat(t, u, "d/s"); a.Mode != overlay.TypeDir|0o2710 || !a.Mtime.Equal(time.Unix(4, 4)) || a.Origin != 4713 {
		t.Errorf("the copied directory: got mode %o, mtime %v, origin %d", a.Mode, a.Mtime, a.Origin)
	}
	ok(t, "Rename", u.Rename(ctx, "d/f", "g", 0))
	if a := lstat(t, u, "g"); a.Origin != 4711 {
		t.Errorf("the origin after Rename: got %d", a.Origin)
	}
}

func (s suite) testCopyUpRefused(t *testing.T) {
	u, _ := s.make(t)
	write(t, u, "f", "old")
	ok(t, "Whiteout", u.Whiteout(ctx, "w"))
	want(t, "CopyUp onto a file", u.CopyUp(ctx, "f", copyOf("new", 0o600)), syscall.EEXIST)
	want(t, "CopyUp onto a whiteout", u.CopyUp(ctx, "w", copyOf("new", 0o600)), syscall.EEXIST)
	want(t, "CopyUp without a parent", u.CopyUp(ctx, "x/f", copyOf("new", 0o600)), syscall.ENOENT)
	wantRead(t, u, "f", "old")
	wantGone(t, u, "w")
}

func (s suite) testCopyUpReplace(t *testing.T) {
	u, _ := s.make(t)
	write(t, u, "f", "old")
	mkdir(t, u, "d")
	ok(t, "Whiteout", u.Whiteout(ctx, "w"))
	c := copyOf("new", 0o600)
	c.Replace, c.Durable = true, true
	old := create(t, u, "f", 0)
	for _, name := range []overlay.Name{"f", "w", "x"} {
		ok(t, "CopyUp with Replace", u.CopyUp(ctx, name, c))
		wantRead(t, u, name, "new")
	}
	if got := content(t, old); got != "old" {
		t.Errorf("a handle on the replaced file reads %q, want old", got)
	}
	finish(t, old)
	wantRead(t, u, "f", "new")
	if err := u.CopyUp(ctx, "d", c); err == nil {
		t.Errorf("CopyUp with Replace took the place of a directory")
	}
	wantList(t, u, overlay.Root, "d", "f", "w", "x")
}

// errFault is what broken sources fail with.
var errFault = errors.New("layertest: injected fault")

// A brokenReader fails behind its first bytes.
type brokenReader struct{}

func (brokenReader) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		return 0, errFault
	}
	p[0] = 'x'
	return 1, errFault
}

// testCopyUpFails is fault 7: a copy that fails leaves nothing behind.
func (s suite) testCopyUpFails(t *testing.T) {
	u, _ := s.make(t)
	c := copyOf(strings.Repeat("x", 1<<20), 0o600)
	c.From = source{c.Attr, brokenReader{}}
	if err := u.CopyUp(ctx, "f", c); err == nil {
		t.Errorf("CopyUp of a file that cannot be read succeeded")
	}
	wantGone(t, u, "f")
	wantList(t, u, overlay.Root)
	if got := marks(t, u, overlay.Root); len(got) != 0 {
		t.Errorf("Marks: got %q, want none", got)
	}
	write(t, u, "f", "ok")
	wantRead(t, u, "f", "ok")
}

func (s suite) testCopyUpInstall(t *testing.T) {
	u, _ := s.make(t)
	c := copyOf("new", 0o600)
	c.Install = func(func() error) error { return errFault }
	if err := u.CopyUp(ctx, "f", c); !errors.Is(err, errFault) {
		t.Errorf("CopyUp: got %v, want what Install returned", err)
	}
	wantGone(t, u, "f")
	calls := 0
	c = copyOf("new", 0o600)
	c.Install = func(put func() error) error {
		calls++
		wantGone(t, u, "f")
		write(t, u, "other", "") // no lock of the layer is held
		if err := put(); err != nil {
			return err
		}
		wantRead(t, u, "f", "new")
		return nil
	}
	ok(t, "CopyUp", u.CopyUp(ctx, "f", c))
	if calls != 1 {
		t.Errorf("Install was called %d times, want once", calls)
	}
	c = copyOf("newer", 0o600)
	c.Install = func(put func() error) error {
		if err := u.Whiteout(ctx, "g"); err != nil {
			return err
		}
		err := put()
		want(t, "put onto a whiteout that came in between", err, syscall.EEXIST)
		return err
	}
	want(t, "CopyUp", u.CopyUp(ctx, "g", c), syscall.EEXIST)
	wantGone(t, u, "g")
}

// A hole is a file with some bytes at its end.
type hole struct{ size int64 }

func (h hole) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), h.size-off)
	if n <= 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	if off+n == h.size {
		p[n-1] = 'x'
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (s suite) testCopyUpSparse(t *testing.T) {
	u, _ := s.make(t)
	c := copyOf("", 0o600)
	c.Attr.Size = 64<<20 + 1
	c.From = source{c.Attr, hole{c.Attr.Size}}
	ok(t, "CopyUp", u.CopyUp(ctx, "f", c))
	if a := lstat(t, u, "f"); a.Size != c.Attr.Size || a.Blocks > 1<<12 {
		t.Errorf("a copy with a hole of 64 MiB: got size %d, %d blocks", a.Size, a.Blocks)
	}
}

// testIndex checks that a lower file with three names is copied up once.
func (s suite) testIndex(t *testing.T) {
	u, dir := s.make(t)
	x := as[overlay.Indexer](t, u)
	c := copyOf("one", 0o644)
	c.Attr.Nlink = 3
	if x.Indexed(c.Origin) {
		t.Errorf("Indexed before CopyUp")
	}
	ok(t, "CopyUp", u.CopyUp(ctx, "a", c))
	nlink := func(name overlay.Name, n uint32) {
		t.Helper()
		if got := lstat(t, u, name).Nlink; got != n {
			t.Errorf("nlink of %q: got %d, want %d", name, got, n)
		}
	}
	nlink("a", 3)
	write(t, u, "a", "two")
	ok(t, "Whiteout of the only name", u.Whiteout(ctx, "a"))
	if s.Reopen != nil {
		u = s.Reopen(t, dir, u)
		x = as[overlay.Indexer](t, u)
	}
	if !x.Indexed(c.Origin) {
		t.Fatalf("the copy is gone with its only name in the layer, though the lower has two more")
	}
	want(t, "LinkIndexed onto a whiteout", x.LinkIndexed(ctx, c.Origin, "a"), syscall.EEXIST)
	ok(t, "LinkIndexed", x.LinkIndexed(ctx, c.Origin, "b"))
	wantRead(t, u, "b", "two")
	nlink("b", 2)
	if a := lstat(t, u, "b"); a.Origin != c.Origin {
		t.Errorf("the origin of a name by LinkIndexed: got %d, want %d", a.Origin, c.Origin)
	}
	if o, is := overlay.As[overlay.IndexOpener](any(u)); is {
		h, err := o.OpenIndexed(ctx, c.Origin)
		ok(t, "OpenIndexed", err)
		if got := content(t, h); got != "two" {
			t.Errorf("OpenIndexed reads %q, want two", got)
		}
		ok(t, "Close", h.Close())
	}
	ok(t, "DropIndexed", x.DropIndexed(ctx, c.Origin))
	nlink("b", 1)
	ok(t, "Link", as[overlay.Linker](t, u).Link(ctx, "b", "c"))
	nlink("c", 2)
	ok(t, "Remove", u.Remove(ctx, "c"))
	ok(t, "Remove", u.Remove(ctx, "b"))
	if x.Indexed(c.Origin) {
		t.Errorf("Indexed when no name is left")
	}
	want(t, "LinkIndexed of nothing", x.LinkIndexed(ctx, c.Origin, "d"), syscall.ENOENT)
}
