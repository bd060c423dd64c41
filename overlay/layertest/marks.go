package layertest

import (
	"slices"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

// testWhiteout is fault 1: what is recorded as gone stays gone.
func (s suite) testWhiteout(t *testing.T) {
	u, dir := s.make(t)
	mkdir(t, u, "d")
	write(t, u, "d/f", "f")
	ok(t, "Whiteout of a file", u.Whiteout(ctx, "d/f"))
	ok(t, "Whiteout of nothing", u.Whiteout(ctx, "d/x"))
	ok(t, "Whiteout of nothing again", u.Whiteout(ctx, "d/x"))
	if s.Reopen != nil {
		u = s.Reopen(t, dir, u)
	}
	wantGone(t, u, "d/f")
	wantGone(t, u, "d/x")
	wantList(t, u, "d")
	if got := marks(t, u, "d"); !slices.Equal(got, []string{"f", "x"}) {
		t.Errorf("Marks: got %q, want f, x", got)
	}
	if a := absence(t, u, "d/f"); a != (overlay.Absence{Gone: true}) {
		t.Errorf("Absence: got %+v, want gone", a)
	}
	for _, name := range []overlay.Name{"d/y", "x/y", "d/f/y"} {
		if a := absence(t, u, name); a != (overlay.Absence{}) {
			t.Errorf("Absence(%q): got %+v, want nothing", name, a)
		}
	}
	want(t, "Whiteout without a parent", u.Whiteout(ctx, "x/y"), syscall.ENOENT)
	_, err := u.Open(ctx, "d/f")
	want(t, "Open", err, syscall.ENOENT)
	want(t, "Remove", u.Remove(ctx, "d/f"), syscall.ENOENT)
	want(t, "Rename", u.Rename(ctx, "d/f", "g", 0), syscall.ENOENT)
	if m, is := overlay.As[overlay.Marker](any(u)); is {
		_, a, err := m.LstatMarks(ctx, "d/f")
		want(t, "LstatMarks", err, syscall.ENOENT)
		if !a.Gone {
			t.Errorf("LstatMarks: got %+v, want gone", a)
		}
	}
	if f, is := overlay.As[overlay.Finder](any(u)); is {
		for name, gone := range map[overlay.Name]bool{"d/f": true, "d/y": false} {
			_, got, err := f.Find(ctx, name)
			want(t, "Find", err, syscall.ENOENT)
			if got != gone {
				t.Errorf("Find(%q): got gone %t, want %t", name, got, gone)
			}
		}
		a, gone, err := f.Find(ctx, "d")
		if err != nil || gone || !a.IsDir() {
			t.Errorf("Find of a directory: got mode %o, gone %t, %v", a.Mode, gone, err)
		}
	}
}

// testWhiteoutReplaced checks what a name does that comes after a whiteout.
func (s suite) testWhiteoutReplaced(t *testing.T) {
	u, _ := s.make(t)
	gone := func(name overlay.Name) {
		t.Helper()
		ok(t, "Whiteout", u.Whiteout(ctx, name))
	}
	gone("f")
	h, err := u.OpenFile(ctx, "f", overlay.Create|overlay.Excl, perm0)
	ok(t, "OpenFile with Excl over a whiteout", err)
	finish(t, h)
	gone("l")
	ok(t, "Symlink", u.Symlink(ctx, "x", "l", perm0))
	gone("d")
	mkdir(t, u, "d")
	if a := absence(t, u, "d"); a != (overlay.Absence{Opaque: true}) {
		t.Errorf("a directory over a whiteout: got %+v, want opaque", a)
	}
	gone("g")
	ok(t, "Rename with NoReplace over a whiteout", u.Rename(ctx, "f", "g", overlay.NoReplace))
	mkdir(t, u, "e")
	if a := absence(t, u, "e"); a != (overlay.Absence{}) {
		t.Errorf("a new directory: got %+v, want nothing", a)
	}
	gone("e2")
	ok(t, "Rename of a directory over a whiteout", u.Rename(ctx, "e", "e2", 0))
	if a := absence(t, u, "e2"); a != (overlay.Absence{Opaque: true}) {
		t.Errorf("a directory moved over a whiteout: got %+v, want opaque", a)
	}
	gone("w")
	want(t, "Exchange with a whiteout", u.Rename(ctx, "g", "w", overlay.Exchange), syscall.ENOENT)
	wantList(t, u, overlay.Root, "d", "e2", "g", "l")
	if got := marks(t, u, overlay.Root); !slices.Equal(got, []string{"w"}) {
		t.Errorf("Marks: got %q, want w alone", got)
	}
}

// testWhiteoutDirectory checks that a directory with nothing but whiteouts is
// empty.
func (s suite) testWhiteoutDirectory(t *testing.T) {
	u, _ := s.make(t)
	fill := func(name overlay.Name) {
		t.Helper()
		mkdir(t, u, name)
		ok(t, "Whiteout", u.Whiteout(ctx, name.Join("w")))
		ok(t, "Whiteout", u.Whiteout(ctx, name.Join("w2")))
	}
	fill("a")
	ok(t, "Remove", u.Remove(ctx, "a"))
	fill("b")
	ok(t, "Whiteout", u.Whiteout(ctx, "b"))
	mkdir(t, u, "b")
	if got := marks(t, u, "b"); len(got) != 0 {
		t.Errorf("a directory made anew has whiteouts: %q", got)
	}
	fill("c")
	mkdir(t, u, "d")
	write(t, u, "d/f", "f")
	want(t, "Whiteout of a full directory", u.Whiteout(ctx, "d"), syscall.ENOTEMPTY)
	ok(t, "Rename", u.Rename(ctx, "d", "c", 0))
	wantRead(t, u, "c/f", "f")
	if got := marks(t, u, "c"); len(got) != 0 {
		t.Errorf("the replaced directory's whiteouts are still there: %q", got)
	}
}

// testLeaveWhiteout is fault 2: a rename hides what is below its source.
func (s suite) testLeaveWhiteout(t *testing.T) {
	u, _ := s.make(t)
	mkdir(t, u, "d", "e")
	write(t, u, "a", "a")
	write(t, u, "b", "b")
	write(t, u, "d/f", "f")
	ok(t, "Whiteout", u.Whiteout(ctx, "w"))
	ok(t, "Rename onto a file", u.Rename(ctx, "a", "b", overlay.LeaveWhiteout))
	ok(t, "Rename onto a whiteout", u.Rename(ctx, "b", "w", overlay.LeaveWhiteout|overlay.NoReplace))
	ok(t, "Rename onto a directory", u.Rename(ctx, "d", "e", overlay.LeaveWhiteout))
	ok(t, "Rename onto nothing", u.Rename(ctx, "w", "z", overlay.LeaveWhiteout|overlay.WriteBack))
	wantList(t, u, overlay.Root, "e", "z")
	wantRead(t, u, "z", "a")
	wantRead(t, u, "e/f", "f")
	if got := marks(t, u, overlay.Root); !slices.Equal(got, []string{"a", "b", "d", "w"}) {
		t.Errorf("Marks: got %q, want a, b, d, w", got)
	}
}

func (s suite) testOpaque(t *testing.T) {
	u, dir := s.make(t)
	mkdir(t, u, "d")
	write(t, u, "f", "")
	ok(t, "SetOpaque", u.SetOpaque(ctx, "d", true))
	if s.Reopen != nil {
		u = s.Reopen(t, dir, u)
	}
	if a := absence(t, u, "d"); !a.Opaque {
		t.Errorf("Absence: got %+v, want opaque", a)
	}
	ok(t, "Rename", u.Rename(ctx, "d", "e", 0))
	if a := absence(t, u, "e"); !a.Opaque {
		t.Errorf("Absence after Rename: got %+v, want opaque", a)
	}
	ok(t, "SetOpaque", u.SetOpaque(ctx, "e", false))
	if a := absence(t, u, "e"); a.Opaque {
		t.Errorf("Absence: got %+v, want nothing", a)
	}
	want(t, "SetOpaque of a file", u.SetOpaque(ctx, "f", true), syscall.ENOTDIR)
	want(t, "SetOpaque of nothing", u.SetOpaque(ctx, "x", true), syscall.ENOENT)
}

func (s suite) testRedirect(t *testing.T) {
	u, dir := s.make(t)
	r := as[overlay.Redirecter](t, u)
	mkdir(t, u, "d")
	const target = "somewhere/with \xff/else"
	ok(t, "SetRedirect", r.SetRedirect(ctx, "d", target))
	ok(t, "Whiteout", u.Whiteout(ctx, "e"))
	ok(t, "Rename", u.Rename(ctx, "d", "e", overlay.LeaveWhiteout))
	if s.Reopen != nil {
		u = s.Reopen(t, dir, u)
		r = as[overlay.Redirecter](t, u)
	}
	if a := absence(t, u, "e"); a != (overlay.Absence{Redirect: target}) {
		t.Errorf("Absence of a moved directory: got %+v, want a redirect to %q", a, target)
	}
	ok(t, "SetRedirect", r.SetRedirect(ctx, "e", ""))
	if a := absence(t, u, "e"); a.Redirect != "" {
		t.Errorf("Absence: got %+v, want nothing", a)
	}
	write(t, u, "f", "")
	want(t, "SetRedirect of a file", r.SetRedirect(ctx, "f", "x"), syscall.ENOTDIR)
}
