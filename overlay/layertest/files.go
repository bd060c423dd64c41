package layertest

import (
	"errors"
	"io"
	iofs "io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

func (s suite) testNames(t *testing.T) {
	u, _ := s.make(t)
	long := strings.Repeat("n", overlay.MaxComponent)
	for _, base := range []string{"a", "with space", "new\nline", "\xff\xfe not utf-8", ".wh.x", ".hidden", "...", "\\", "日本", long} {
		name := overlay.Name(base)
		write(t, u, name, base)
		wantRead(t, u, name, base)
		if !slices.Contains(list(t, u, overlay.Root), base) {
			t.Errorf("ReadDir does not list %q", base)
		}
	}
	tooLong := overlay.Name(long + "n")
	_, err := u.Lstat(ctx, tooLong)
	want(t, "Lstat of 256 bytes", err, syscall.ENAMETOOLONG)
	want(t, "Mkdir of 256 bytes", u.Mkdir(ctx, tooLong, perm0), syscall.ENAMETOOLONG)
	_, err = u.OpenFile(ctx, "a/"+tooLong, overlay.Create, perm0)
	if got := errnoOf(err); got != syscall.ENAMETOOLONG && got != syscall.ENOTDIR {
		t.Errorf("OpenFile of 256 bytes: got %v, want ENAMETOOLONG", err)
	}
	deep := overlay.Name(long)
	ok(t, "Remove", u.Remove(ctx, deep))
	mkdir(t, u, deep)
	for range 20 { // over PATH_MAX
		deep = deep.Join(long)
		mkdir(t, u, deep)
	}
	write(t, u, deep.Join("f"), "deep")
	wantRead(t, u, deep.Join("f"), "deep")
}

func (s suite) testLookup(t *testing.T) {
	u, _ := s.make(t)
	mkdir(t, u, "d")
	write(t, u, "f", "f")
	write(t, u, "d/g", "g")
	ok(t, "Symlink", u.Symlink(ctx, "d", "l", perm0))
	for _, c := range []struct {
		name overlay.Name
		err  syscall.Errno
	}{{"x", syscall.ENOENT}, {"x/y", syscall.ENOENT}, {"d/x", syscall.ENOENT}, {"f/x", syscall.ENOTDIR}, {"l/g", syscall.ENOTDIR}} {
		_, err := u.Lstat(ctx, c.name)
		want(t, "Lstat("+string(c.name)+")", err, c.err)
		_, err = u.Open(ctx, c.name)
		want(t, "Open("+string(c.name)+")", err, c.err)
		_, err = u.ReadDir(ctx, c.name)
		want(t, "ReadDir("+string(c.name)+")", err, c.err)
		_, err = u.OpenFile(ctx, c.name.Join("new"), overlay.Create, perm0)
		if c.err == syscall.ENOENT || c.name != "d/x" {
			want(t, "OpenFile below "+string(c.name), err, c.err)
		}
		if pe, is := errors.AsType[*iofs.PathError](err); !is || pe.Path == "" {
			t.Errorf("OpenFile below %q: got %v, want a PathError", c.name, err)
		}
	}
	if a := lstat(t, u, "l"); a.Type() != overlay.TypeLink || a.Size != 1 {
		t.Errorf("Lstat of a link: got type %o, size %d, want a link of size 1", a.Type(), a.Size)
	}
	if got, err := u.Readlink(ctx, "l"); got != "d" || err != nil {
		t.Errorf("Readlink: got %q, %v, want d", got, err)
	}
	_, err := u.Readlink(ctx, "f")
	want(t, "Readlink of a file", err, syscall.EINVAL)
	_, err = u.Readlink(ctx, "d")
	want(t, "Readlink of a directory", err, syscall.EINVAL)
	for _, target := range []string{"nowhere/at all", "/", "../..", "\xff", strings.Repeat("t", 4000)} {
		ok(t, "Symlink", u.Symlink(ctx, target, "t", perm0))
		if got, err := u.Readlink(ctx, "t"); got != target || err != nil {
			t.Errorf("Readlink: got %.80q, %v, want %.80q", got, err, target)
		}
		ok(t, "Remove", u.Remove(ctx, "t"))
	}
	if a := lstat(t, u, overlay.Root); !a.IsDir() || a.Ino == 0 {
		t.Errorf("Lstat of the root: got type %o, ino %d", a.Type(), a.Ino)
	}
}

func (s suite) testReadDir(t *testing.T) {
	u, _ := s.make(t)
	wantList(t, u, overlay.Root)
	mkdir(t, u, "d", "d/sub")
	ok(t, "Symlink", u.Symlink(ctx, "x", "d/link", perm0))
	for _, base := range []string{"b", "a", "B", "a.b", "a b", "\xff"} {
		write(t, u, overlay.Name("d").Join(base), "")
	}
	wantList(t, u, "d", "B", "a", "a b", "a.b", "b", "link", "sub", "\xff")
	entries, err := u.ReadDir(ctx, "d")
	ok(t, "ReadDir", err)
	seen := make(map[uint64]string)
	for _, e := range entries {
		a := lstat(t, u, overlay.Name("d").Join(e.Name))
		if e.Type != a.Type() || e.Ino != a.Ino || e.Dev != a.Dev || e.Origin != a.Origin || e.Ino == 0 {
			t.Errorf("entry %q is type %o, ino %d/%d/%d, Lstat says %o, %d/%d/%d",
				e.Name, e.Type, e.Dev, e.Ino, e.Origin, a.Type(), a.Dev, a.Ino, a.Origin)
		}
		if other := seen[e.Ino]; other != "" {
			t.Errorf("%q and %q have inode number %d", other, e.Name, e.Ino)
		}
		seen[e.Ino] = e.Name
	}
	_, err = u.ReadDir(ctx, "d/a")
	want(t, "ReadDir of a file", err, syscall.ENOTDIR)
}

func (s suite) testOpen(t *testing.T) {
	u, _ := s.make(t)
	mkdir(t, u, "d")
	ok(t, "Symlink", u.Symlink(ctx, "d", "l", perm0))
	write(t, u, "f", "content")
	for name, errno := range map[overlay.Name]syscall.Errno{"d": syscall.EISDIR, "l": syscall.EINVAL, "x": syscall.ENOENT} {
		_, err := u.Open(ctx, name)
		want(t, "Open("+string(name)+")", err, errno)
		_, err = u.OpenFile(ctx, name, 0, overlay.Perm{})
		want(t, "OpenFile("+string(name)+")", err, errno)
	}
	h, err := u.Open(ctx, "f")
	ok(t, "Open", err)
	defer h.Close()
	p := make([]byte, 10)
	if n, err := h.ReadAt(p, 3); n != 4 || err != io.EOF || string(p[:n]) != "tent" {
		t.Errorf("ReadAt over the end: got %d, %q, %v, want tent, EOF", n, p[:n], err)
	}
	if n, err := h.ReadAt(p, 100); n != 0 || err != io.EOF {
		t.Errorf("ReadAt behind the end: got %d, %v, want EOF", n, err)
	}
	a, err := h.Stat(ctx)
	if b := lstat(t, u, "f"); err != nil || a.Ino != b.Ino || a.Size != 7 {
		t.Errorf("Stat: got ino %d, size %d, %v, want %d, 7", a.Ino, a.Size, err, b.Ino)
	}
}

func (s suite) testSpecial(t *testing.T) {
	u, _ := s.make(t)
	n := as[overlay.Noder](t, u)
	for base, typ := range map[overlay.Name]uint32{"fifo": overlay.TypeFIFO, "sock": overlay.TypeSock} {
		ok(t, "Mknod", n.Mknod(ctx, base, typ, 0, overlay.Perm{Mode: 0o640}))
		if a := lstat(t, u, base); a.Mode != typ|0o640 {
			t.Errorf("Lstat(%q): got mode %o, want %o", base, a.Mode, typ|0o640)
		}
		_, err := u.Open(ctx, base) // must not block
		want(t, "Open", err, syscall.EINVAL)
		_, err = u.OpenFile(ctx, base, overlay.Truncate, overlay.Perm{})
		want(t, "OpenFile", err, syscall.EINVAL)
		want(t, "Mknod again", n.Mknod(ctx, base, typ, 0, perm0), syscall.EEXIST)
	}
	want(t, "Mknod of a whiteout", n.Mknod(ctx, "w", overlay.TypeChar, 0, perm0), syscall.EPERM)
	wantGone(t, u, "w")
}

func (s suite) testCreate(t *testing.T) {
	u, _ := s.make(t)
	write(t, u, "f", "old content")
	_, err := u.OpenFile(ctx, "f", overlay.Create|overlay.Excl, perm0)
	want(t, "OpenFile with Excl", err, syscall.EEXIST)
	h := create(t, u, "f", overlay.Create)
	put(t, h, "new", 0)
	finish(t, h)
	wantRead(t, u, "f", "new content")
	h = create(t, u, "f", overlay.Truncate)
	put(t, h, "x", 3)
	finish(t, h)
	wantRead(t, u, "f", "\x00\x00\x00x")
	want(t, "Mkdir", u.Mkdir(ctx, "f", perm0), syscall.EEXIST)
	want(t, "Symlink", u.Symlink(ctx, "x", "f", perm0), syscall.EEXIST)
	want(t, "Mkdir without a parent", u.Mkdir(ctx, "x/y", perm0), syscall.ENOENT)
	want(t, "Mkdir of the root", u.Mkdir(ctx, overlay.Root, perm0), syscall.EEXIST)
}

func (s suite) testAppend(t *testing.T) {
	u, _ := s.make(t)
	write(t, u, "f", "12")
	h := create(t, u, "f", overlay.Append)
	put(t, h, "3", 0)
	put(t, h, "4", 1)
	finish(t, h)
	wantRead(t, u, "f", "1234")
}

// testUnlinked is fault 5: open files that lose their name go on working.
func (s suite) testUnlinked(t *testing.T) {
	u, _ := s.make(t)
	h := create(t, u, "f", overlay.Create)
	put(t, h, "xxxxxxxxx", 0)
	ok(t, "Flush", h.Flush(ctx))
	r, err := u.Open(ctx, "f")
	ok(t, "Open", err)
	ok(t, "Remove", u.Remove(ctx, "f"))
	_, err = h.SetAttr(ctx, overlay.SetAttr{Valid: overlay.SetSize | overlay.SetMode, Size: 3, Mode: 0o600})
	ok(t, "SetAttr", err)
	put(t, h, "y", 3)
	if got := content(t, h); got != "xxxy" {
		t.Errorf("the removed file holds %q, want xxxy", got)
	}
	if a, err := h.Stat(ctx); err != nil || a.Nlink != 0 || a.Size != 4 || a.Mode&0o777 != 0o600 {
		t.Errorf("Stat: got nlink %d, size %d, mode %o, %v, want 0, 4, 600", a.Nlink, a.Size, a.Mode, err)
	}
	write(t, u, "f", "another")
	wantRead(t, u, "f", "another")
	if _, err := r.Stat(ctx); err != nil {
		t.Errorf("Stat of the reader: %v", err)
	}
	finish(t, h)
	ok(t, "Close", r.Close())
	wantRead(t, u, "f", "another")
	wantList(t, u, overlay.Root, "f")
}

func (s suite) testSparse(t *testing.T) {
	u, _ := s.make(t)
	h := create(t, u, "f", overlay.Create)
	put(t, h, "end", 1<<30)
	finish(t, h)
	if a := lstat(t, u, "f"); a.Size != 1<<30+3 || a.Blocks > 1<<12 {
		t.Errorf("a file with a hole of 1 GiB: got size %d, %d blocks", a.Size, a.Blocks)
	}
}

func (s suite) testParallel(t *testing.T) {
	u, _ := s.make(t)
	const workers, files = 8, 25
	errs := make(chan error, workers)
	for w := range workers {
		go func() {
			errs <- s.work(t, u, overlay.Name(rune('a'+w)), files)
		}()
	}
	for range workers {
		ok(t, "a worker", <-errs)
	}
	if got := len(list(t, u, overlay.Root)); got != workers*2 {
		t.Errorf("the root has %d entries, want %d", got, workers*2)
	}
}

// work makes, renames and removes files in a directory of its own and in the
// root, which it shares with others.
func (s suite) work(t TB, u overlay.Upper, dir overlay.Name, files int) error {
	if err := u.Mkdir(ctx, dir, perm0); err != nil {
		return err
	}
	for i := range files {
		tmp, name := dir.Join("tmp"), overlay.Name("f"+string(dir))
		if i%2 == 1 {
			tmp, name = name, tmp
		}
		h, err := u.OpenFile(ctx, tmp, overlay.Create, perm0)
		if err != nil {
			return err
		}
		if err := errors.Join(h.Flush(ctx), h.Close(), u.Rename(ctx, tmp, name, 0)); err != nil {
			return err
		}
		if _, err := u.Lstat(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
