package disklayer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

func TestMain(m *testing.M) {
	unix.Umask(0)
	os.Exit(m.Run())
}

// A place is where a test keeps an upper.
type place struct{ dir, work string }

func newPlace(t *testing.T) place {
	base := t.TempDir()
	return place{filepath.Join(base, "upper"), filepath.Join(base, "work")}
}

// open opens the upper at p and recovers it. Copies stay pending until a test
// settles them.
func (p place) open(t *testing.T, o Options) *Upper {
	t.Helper()
	if o.SyncDelay == 0 {
		o.SyncDelay = -1
	}
	u, err := OpenUpper(p.dir, p.work, o)
	if err != nil {
		t.Fatalf("OpenUpper: %v", err)
	}
	if _, err := u.Recover(t.Context(), noOrigins); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	return u
}

func noOrigins(context.Context, string, overlay.Name) (overlay.Handle, error) {
	return nil, errors.New("no origins in this test")
}

func newUpper(t *testing.T) *Upper {
	t.Helper()
	u := newPlace(t).open(t, Options{})
	t.Cleanup(func() {
		if err := u.Check(context.Background()); err != nil {
			t.Errorf("Check in the end: %v", err)
		}
		if err := u.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return u
}

func perm(mode uint32) overlay.Perm {
	return overlay.Perm{Mode: mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

func write(t *testing.T, u overlay.Layer, name overlay.Name, data string) {
	t.Helper()
	w, err := u.OpenFile(t.Context(), name, overlay.Create|overlay.Truncate, perm(0o644))
	if err != nil {
		t.Fatalf("OpenFile(%q): %v", name, err)
	}
	defer w.Close()
	if _, err := w.WriteAt([]byte(data), 0); err != nil {
		t.Fatalf("WriteAt(%q): %v", name, err)
	}
}

func read(t *testing.T, r overlay.Reader, name overlay.Name) string {
	t.Helper()
	h, err := r.Open(t.Context(), name)
	if err != nil {
		return "error: " + errno(err).Error()
	}
	defer h.Close()
	b, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<40))
	if err != nil {
		t.Fatalf("ReadAt(%q): %v", name, err)
	}
	return string(b)
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	if err != nil && !errors.As(err, &e) {
		return syscall.EPROTO // no errno inside: never right
	}
	return e
}

func want(t *testing.T, what string, err error, code syscall.Errno) {
	t.Helper()
	if errno(err) != code {
		t.Errorf("%s: got %v, want %v", what, err, code)
	}
}

func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// listing returns the names in the directory name, and its whiteouts with a !.
func listing(t *testing.T, l interface {
	overlay.Reader
	overlay.Whiteouter
}, name overlay.Name) string {
	t.Helper()
	entries, err := l.ReadDir(t.Context(), name)
	must(t, "ReadDir", err)
	gone, err := l.Marks(t.Context(), name)
	must(t, "Marks", err)
	var names []string
	for _, e := range entries {
		a, err := l.Lstat(t.Context(), name.Join(e.Name))
		must(t, "Lstat", err)
		if a.Ino != e.Ino || a.Type() != e.Type || a.Origin != e.Origin {
			t.Errorf("entry %q is %+v, Lstat tells %+v", e.Name, e, a)
		}
		names = append(names, e.Name)
	}
	for _, g := range gone {
		names = append(names, "!"+g)
	}
	return strings.Join(names, " ")
}

func TestFilesAndDirectories(t *testing.T) {
	t.Parallel()
	u, ctx := newUpper(t), t.Context()
	must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
	write(t, u, "d/f", "hello")
	must(t, "Symlink", u.Symlink(ctx, "../nowhere", "d/l", perm(0)))
	if got := read(t, u, "d/f"); got != "hello" {
		t.Errorf("d/f holds %q", got)
	}
	if got, err := u.Readlink(ctx, "d/l"); got != "../nowhere" || err != nil {
		t.Errorf("Readlink(d/l) = %q, %v", got, err)
	}
	if got := listing(t, u, "d"); got != "f l" {
		t.Errorf("d lists %q", got)
	}
	want(t, "Mkdir over a file", u.Mkdir(ctx, "d/f", perm(0o755)), syscall.EEXIST)
	want(t, "Remove of a full directory", u.Remove(ctx, "d"), syscall.ENOTEMPTY)
	want(t, "Remove of nothing", u.Remove(ctx, "x"), syscall.ENOENT)
	_, err := u.Open(ctx, "d")
	want(t, "Open of a directory", err, syscall.EISDIR)
	_, err = u.Open(ctx, "d/l")
	want(t, "Open of a link", err, syscall.EINVAL)
	_, err = u.Lstat(ctx, "d/l/x")
	want(t, "Lstat through a link", err, syscall.ENOTDIR)
	_, err = u.Lstat(ctx, "d/f/x")
	want(t, "Lstat below a file", err, syscall.ENOTDIR)
	_, err = u.OpenFile(ctx, "d/f", overlay.Create|overlay.Excl, perm(0o600))
	want(t, "exclusive create of a file", err, syscall.EEXIST)
	must(t, "Remove", u.Remove(ctx, "d/f"))
	must(t, "Remove", u.Remove(ctx, "d/l"))
	must(t, "Remove", u.Remove(ctx, "d"))
	if got := listing(t, u, "."); got != "" {
		t.Errorf("the root lists %q in the end", got)
	}
}

func TestWhiteouts(t *testing.T) {
	t.Parallel()
	u, ctx := newUpper(t), t.Context()
	must(t, "Whiteout of nothing", u.Whiteout(ctx, "a"))
	must(t, "Whiteout again", u.Whiteout(ctx, "a"))
	write(t, u, "b", "b")
	must(t, "Whiteout of a file", u.Whiteout(ctx, "b"))
	must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
	must(t, "Whiteout", u.Whiteout(ctx, "d/x"))
	if got := listing(t, u, "."); got != "d !a !b" {
		t.Errorf("the root lists %q", got)
	}
	write(t, u, "d/y", "y")
	want(t, "Whiteout of a full directory", u.Whiteout(ctx, "d"), syscall.ENOTEMPTY)
	must(t, "Remove", u.Remove(ctx, "d/y"))
	must(t, "Whiteout of a directory of whiteouts", u.Whiteout(ctx, "d"))
	for _, name := range []overlay.Name{"a", "b", "d"} {
		_, err := u.Lstat(ctx, name)
		want(t, "Lstat of a whiteout", err, syscall.ENOENT)
		if a, err := u.Absence(ctx, name); err != nil || !a.Gone {
			t.Errorf("Absence(%q) = %+v, %v", name, a, err)
		}
	}
	_, err := u.Lstat(ctx, "a/below")
	want(t, "Lstat below a whiteout", err, syscall.ENOENT)
	want(t, "Remove of a whiteout", u.Remove(ctx, "a"), syscall.ENOENT)

	write(t, u, "a", "new")
	must(t, "Mkdir over a whiteout", u.Mkdir(ctx, "d", perm(0o2755)))
	if a, err := u.Absence(ctx, "d"); err != nil || !a.Opaque || a.Gone {
		t.Errorf("Absence of a directory over a whiteout = %+v, %v; want opaque", a, err)
	}
	if a, err := u.Lstat(ctx, "d"); err != nil || a.Mode != unix.S_IFDIR|0o2755 {
		t.Errorf("Lstat(d) = %o, %v; want 42755", a.Mode, err)
	}
	must(t, "Symlink over a whiteout", u.Symlink(ctx, "x", "b", perm(0)))
	if got := listing(t, u, "."); got != "a b d" {
		t.Errorf("the root lists %q after all was made again", got)
	}
	must(t, "Whiteout in d", u.Whiteout(ctx, "d/w"))
	must(t, "Remove of a directory of whiteouts", u.Remove(ctx, "d"))
}

func TestRename(t *testing.T) {
	t.Parallel()
	u, ctx := newUpper(t), t.Context()
	write(t, u, "a", "a")
	write(t, u, "b", "b")
	want(t, "Rename NoReplace", u.Rename(ctx, "a", "b", overlay.NoReplace), syscall.EEXIST)
	must(t, "Exchange", u.Rename(ctx, "a", "b", overlay.Exchange))
	if read(t, u, "a") != "b" || read(t, u, "b") != "a" {
		t.Errorf("after Exchange: a=%q b=%q", read(t, u, "a"), read(t, u, "b"))
	}
	must(t, "Rename with whiteout", u.Rename(ctx, "a", "c", overlay.LeaveWhiteout|overlay.WriteBack))
	must(t, "Rename onto whiteout", u.Rename(ctx, "c", "a", overlay.NoReplace))
	must(t, "Rename over", u.Rename(ctx, "a", "b", 0))
	if got := listing(t, u, "."); got != "b" {
		t.Errorf("the root lists %q", got)
	}
	must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
	must(t, "Mkdir", u.Mkdir(ctx, "d/e", perm(0o755)))
	write(t, u, "d/e/f", "deep")
	want(t, "Rename into itself", u.Rename(ctx, "d", "d/e/x", 0), syscall.EINVAL)
	must(t, "Mkdir", u.Mkdir(ctx, "t", perm(0o755)))
	must(t, "Whiteout", u.Whiteout(ctx, "t/w"))
	must(t, "Rename onto a directory of whiteouts", u.Rename(ctx, "d", "t", overlay.LeaveWhiteout))
	if got := read(t, u, "t/e/f"); got != "deep" {
		t.Errorf("t/e/f holds %q", got)
	}
	if got := listing(t, u, "."); got != "b t !d" {
		t.Errorf("the root lists %q", got)
	}
	_, err := u.Lstat(ctx, "d/e")
	want(t, "Lstat of the old name", err, syscall.ENOENT)
	must(t, "Rename of a directory onto a whiteout", u.Rename(ctx, "t", "d", 0))
	if a, err := u.Absence(ctx, "d"); err != nil || !a.Opaque {
		t.Errorf("Absence(d) = %+v, %v; want opaque", a, err)
	}
	if got := listing(t, u, "."); got != "b d" {
		t.Errorf("the root lists %q", got)
	}
	want(t, "file over directory", u.Rename(ctx, "b", "d", 0), syscall.EISDIR)
	want(t, "directory over file", u.Rename(ctx, "d", "b", 0), syscall.ENOTDIR)
	must(t, "SetRedirect", u.SetRedirect(ctx, "d", "some/where"))
	if a, err := u.Absence(ctx, "d"); err != nil || a.Redirect != "some/where" {
		t.Errorf("Absence(d) = %+v, %v; want the redirect", a, err)
	}
	must(t, "SetRedirect", u.SetRedirect(ctx, "d", ""))
	if a, err := u.Absence(ctx, "d"); err != nil || a.Redirect != "" {
		t.Errorf("Absence(d) = %+v, %v; want no redirect", a, err)
	}
}

func TestNamesOfAnyKind(t *testing.T) {
	t.Parallel()
	u, ctx := newUpper(t), t.Context()
	long := strings.Repeat("x", 255)
	write(t, u, overlay.Name(long), "long")
	write(t, u, "\xff\xfe\n", "bytes")
	_, err := u.Lstat(ctx, overlay.Name(long+"x"))
	want(t, "256 bytes", err, syscall.ENAMETOOLONG)
	name := overlay.Name(long[:200])
	must(t, "Mkdir", u.Mkdir(ctx, name, perm(0o755)))
	for len(name) < 10000 {
		name = name.Join(long[:200])
		must(t, "Mkdir", u.Mkdir(ctx, name, perm(0o755)))
	}
	write(t, u, name.Join("f"), "deep")
	u.cache.shrink()
	if got := read(t, u, name.Join("f")); got != "deep" {
		t.Errorf("a file at a name of %d bytes holds %q", len(name)+2, got)
	}
	noOpenat2.Store(true)
	defer noOpenat2.Store(false)
	u.cache.shrink()
	if got := read(t, u, name.Join("f")); got != "deep" {
		t.Errorf("without openat2: a file at a name of %d bytes holds %q", len(name)+2, got)
	}
	must(t, "Symlink", u.Symlink(ctx, ".", "l", perm(0)))
	_, err = u.Lstat(ctx, "l/l/l")
	want(t, "without openat2: Lstat through a link", err, syscall.ENOTDIR)
}

func TestCopyUpAndRemount(t *testing.T) {
	t.Parallel()
	p, ctx := newPlace(t), t.Context()
	u := p.open(t, Options{})
	lower := newUpper(t)
	data := strings.Repeat("0123456789abcdef", 1<<16) + string(make([]byte, 1<<20)) + "end" + string(make([]byte, 100<<10))
	write(t, lower, "f", data)
	a, err := lower.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o6755})
	must(t, "SetAttr", err)
	h, err := lower.Open(ctx, "f")
	must(t, "Open", err)
	defer h.Close()
	must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
	must(t, "Whiteout", u.Whiteout(ctx, "d/w"))
	before, err := u.Lstat(ctx, "d")
	must(t, "Lstat", err)
	c := overlay.Copy{Attr: a, From: h, Origin: 4711, Layer: "lower", Name: "f",
		Xattrs: []overlay.Xattr{{Name: "user.x", Value: []byte("y")}, {Name: "trusted.overlay.opaque", Value: []byte("y")}}}
	must(t, "CopyUp", u.CopyUp(ctx, "d/f", c))
	if after, err := u.Lstat(ctx, "d"); err != nil || !after.Mtime.Equal(before.Mtime) {
		t.Errorf("CopyUp changed the parent's mtime from %v to %v", before.Mtime, after.Mtime)
	}
	want(t, "CopyUp again", u.CopyUp(ctx, "d/f", c), syscall.EEXIST)
	want(t, "CopyUp over a whiteout", u.CopyUp(ctx, "d/w", c), syscall.EEXIST)
	c.Replace = true
	must(t, "CopyUp over a whiteout", u.CopyUp(ctx, "d/w", c))
	check := func(when string) {
		t.Helper()
		got, err := u.Lstat(ctx, "d/f")
		must(t, "Lstat", err)
		if got.Mode != a.Mode || got.Size != a.Size || !got.Mtime.Equal(a.Mtime) || got.Origin != 4711 || got.Nlink != 1 {
			t.Errorf("%s: copy is %+v, want %+v", when, got, a)
		}
		if read(t, u, "d/f") != data {
			t.Errorf("%s: the copy's data differ", when)
		}
		if x, err := u.Listxattr(ctx, "d/f"); err != nil || !slices.Equal(x, []string{"user.x"}) {
			t.Errorf("%s: the copy has the attributes %q, %v", when, x, err)
		}
	}
	check("after CopyUp")
	must(t, "Check", u.Check(ctx))
	must(t, "DrainMarks", u.DrainMarks(ctx))
	if o, err := u.marks.origin(u.root, "d/f", 0); err != nil || o.pending || o.bad {
		t.Errorf("after DrainMarks the copy has the mark %+v, %v", o, err)
	}
	must(t, "Close", u.Close())
	u = p.open(t, Options{})
	check("after a remount")
	must(t, "Close", u.Close())
	f, err := OpenFrozen(p.dir, Options{})
	must(t, "OpenFrozen", err)
	if got, err := f.Lstat(ctx, "d/f"); err != nil || got.Origin != 4711 {
		t.Errorf("frozen: Lstat = %+v, %v", got, err)
	}
	must(t, "Close", f.Close())
}

func TestHardLinksOfLowerFiles(t *testing.T) {
	t.Parallel()
	p, ctx := newPlace(t), t.Context()
	u := p.open(t, Options{})
	lower := newUpper(t)
	write(t, lower, "a", "data")
	must(t, "Link", lower.Link(ctx, "a", "b"))
	must(t, "Link", lower.Link(ctx, "a", "c"))
	a, err := lower.Lstat(ctx, "a")
	must(t, "Lstat", err)
	h, err := lower.Open(ctx, "a")
	must(t, "Open", err)
	defer h.Close()
	if a.Nlink != 3 {
		t.Fatalf("the lower file has %d links", a.Nlink)
	}
	must(t, "CopyUp", u.CopyUp(ctx, "a", overlay.Copy{Attr: a, From: h, Origin: a.Ino, Layer: "l", Name: "a"}))
	links := func(name overlay.Name, n uint32) {
		t.Helper()
		got, err := u.Lstat(ctx, name)
		if err != nil || got.Nlink != n || got.Origin != a.Ino {
			t.Errorf("Lstat(%q): %d links, origin %d, %v; want %d, %d", name, got.Nlink, got.Origin, err, n, a.Ino)
		}
	}
	links("a", 3)
	if !u.Indexed(a.Ino) {
		t.Fatal("the copy is not indexed")
	}
	must(t, "LinkIndexed", u.LinkIndexed(ctx, a.Ino, "b"))
	x, err := u.OpenIndexed(ctx, a.Ino)
	must(t, "OpenIndexed", err)
	if got, err := x.Stat(ctx); err != nil || got.Nlink != 3 || got.Origin != a.Ino {
		t.Errorf("Stat of the copy in the index: %+v, %v", got, err)
	}
	must(t, "Close", x.Close())
	links("a", 3)
	links("b", 3)
	must(t, "Whiteout", u.Whiteout(ctx, "c"))
	must(t, "DropIndexed", u.DropIndexed(ctx, a.Ino))
	links("a", 2)
	must(t, "Link", u.Link(ctx, "a", "d"))
	links("b", 3)
	st, err := u.Lstat(ctx, "a")
	must(t, "Lstat", err)
	if got := u.Names(st.Ino); !slices.Equal(got, []overlay.Name{"a", "b", "d"}) {
		t.Errorf("Names = %q", got)
	}
	must(t, "Check", u.Check(ctx))
	must(t, "Close", u.Close())
	u = p.open(t, Options{})
	must(t, "Check", u.Check(ctx))
	links("d", 3)
	for i, name := range []overlay.Name{"a", "b"} {
		must(t, "Remove", u.Remove(ctx, name))
		links("d", uint32(2-i))
	}
	must(t, "Remove", u.Remove(ctx, "d"))
	if u.Indexed(a.Ino) {
		t.Error("the copy is still in the index after its last name went")
	}
	must(t, "Check", u.Check(ctx))
	must(t, "Close", u.Close())
}

// What a killed process leaves is found again: names, links, whiteouts.
func TestStartAfterAKill(t *testing.T) {
	t.Parallel()
	p, ctx := newPlace(t), t.Context()
	u := p.open(t, Options{})
	must(t, "Mkdir", u.Mkdir(ctx, "d", perm(0o755)))
	write(t, u, "d/a", "a")
	must(t, "Link", u.Link(ctx, "d/a", "b"))
	must(t, "Whiteout", u.Whiteout(ctx, "w"))
	must(t, "Rename", u.Rename(ctx, "d", "e", 0))
	must(t, "WriteFile", os.WriteFile(filepath.Join(p.work, newName, "left.1"), []byte("debris"), 0o600))
	must(t, "Mkdir", os.MkdirAll(filepath.Join(p.work, newName, "left.2", "sub"), 0o700))
	again := p.open(t, Options{alone: true}) // u is never closed, as if killed
	a, err := again.Lstat(ctx, "b")
	must(t, "Lstat", err)
	if got := again.Names(a.Ino); !slices.Equal(got, []overlay.Name{"b", "e/a"}) {
		t.Errorf("Names = %q", got)
	}
	if got := listing(t, again, "."); got != "b e !w" {
		t.Errorf("the root lists %q", got)
	}
	must(t, "Check", again.Check(ctx))
	must(t, "Close", again.Close())
	u.release()
}

func TestTmpfile(t *testing.T) {
	t.Parallel()
	u, ctx := newUpper(t), t.Context()
	w, err := u.Tmpfile(ctx, ".", perm(0o640))
	must(t, "Tmpfile", err)
	defer w.Close()
	_, err = w.WriteAt([]byte("tmp"), 0)
	must(t, "WriteAt", err)
	must(t, "Whiteout", u.Whiteout(ctx, "f"))
	must(t, "LinkHandle", u.LinkHandle(ctx, w, "f"))
	want(t, "LinkHandle again", u.LinkHandle(ctx, w, "f"), syscall.EEXIST)
	must(t, "LinkHandle", u.LinkHandle(ctx, w, "g"))
	if got := read(t, u, "f"); got != "tmp" {
		t.Errorf("f holds %q", got)
	}
	old, err := u.OpenFile(ctx, "g", 0, perm(0))
	must(t, "OpenFile", err)
	defer old.Close()
	want(t, "LinkHandle of a file by name", u.LinkHandle(ctx, old, "h"), syscall.EINVAL)
}

func ExampleOpenFrozen() {
	_, err := OpenFrozen("/nonexistent", Options{})
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}
