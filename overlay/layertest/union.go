package layertest

import (
	"slices"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// runUnion tests what an Overlay over the layer does with lowers.
func (s suite) runUnion(t *testing.T) {
	for _, test := range []struct {
		name  string
		needs Ability
		run   func(suite, *testing.T)
	}{
		{"Deletions", 0, suite.unionDeletions},
		{"Litter", 0, suite.unionLitter},
		{"RenameOverDeleted", 0, suite.unionRenameOverDeleted},
		{"RenameTwice", 0, suite.unionRenameTwice},
		{"DirectoryMadeAgain", 0, suite.unionMadeAgain},
		{"RenameDirectory", Redirects, suite.unionRenameDirectory},
		{"ExchangeDirectory", Redirects, suite.unionExchangeDirectory},
		{"RemoveLarge", 0, suite.unionRemoveLarge},
		{"CopyUpAttributes", 0, suite.unionCopyUpAttributes},
		{"HardLinks", Index | Links, suite.unionHardLinks},
		{"HardLinksFrozen", Index | Links, suite.unionHardLinksFrozen},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if s.can(test.needs) {
				test.run(s, t)
			}
		})
	}
}

// over returns an Overlay over a project that fill filled, and a function that
// checks that the project is as it was.
func (s suite) over(t *testing.T, fill func(overlay.Layer)) *tower {
	t.Helper()
	project := memlayer.New(memlayer.Options{})
	fill(project)
	before := fingerprint(t, project)
	t.Cleanup(func() {
		// Fault 8: nothing is written through to the project.
		if after := fingerprint(t, project); after != before {
			t.Errorf("the project is\n%s\nwas\n%s", after, before)
		}
	})
	w := s.newTower(t, project)
	t.Cleanup(func() {
		if err := overlay.Check(ctx, w.o); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	return w
}

// unionDeletions is fault 1: a deletion holds over any number of remounts.
func (s suite) unionDeletions(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) { write(t, l, "f", "f") })
	ok(t, "Remove", w.o.Remove(ctx, "f"))
	for range 3 {
		w.reopen()
		wantGone(t, w.o, "f")
		wantList(t, w.o, overlay.Root)
		w.freeze()
	}
	write(t, w.o, "f", "new")
	w.reopen()
	wantRead(t, w.o, "f", "new")
}

// unionLitter is the other half of fault 1: names that no lower has leave
// nothing behind.
func (s suite) unionLitter(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) { mkdir(t, l, "d") })
	for _, dir := range []overlay.Name{overlay.Root, "d"} {
		write(t, w.o, dir.Join("x"), "")
		write(t, w.o, dir.Join("tmp"), "")
		ok(t, "Rename", w.o.Rename(ctx, dir.Join("tmp"), dir.Join("x"), 0))
		ok(t, "Remove", w.o.Remove(ctx, dir.Join("x")))
		mkdir(t, w.o, dir.Join("y"))
		ok(t, "Rename", w.o.Rename(ctx, dir.Join("y"), dir.Join("z"), 0))
		ok(t, "Remove", w.o.Remove(ctx, dir.Join("z")))
		if got := marks(t, w.upper, dir); len(got) != 0 {
			t.Errorf("whiteouts left in %q: %q", dir, got)
		}
	}
	wantList(t, w.upper, "d")
}

// unionRenameOverDeleted is fault 2 with a target that is deleted.
func (s suite) unionRenameOverDeleted(t *testing.T) {
	for _, flag := range []overlay.RenameFlag{0, overlay.NoReplace} {
		w := s.over(t, func(l overlay.Layer) {
			write(t, l, "a", "a")
			write(t, l, "b", "b")
		})
		ok(t, "Remove", w.o.Remove(ctx, "b"))
		ok(t, "Rename", w.o.Rename(ctx, "a", "b", flag))
		for range 2 {
			wantList(t, w.o, overlay.Root, "b")
			wantRead(t, w.o, "b", "a")
			w.reopen()
		}
	}
}

// unionRenameTwice is fault 2 with a source that replaced a lower file.
func (s suite) unionRenameTwice(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) { write(t, l, "a", "lower") })
	write(t, w.o, "t", "n")
	ok(t, "Rename", w.o.Rename(ctx, "t", "a", 0))
	ok(t, "Rename", w.o.Rename(ctx, "a", "g", 0))
	for range 2 {
		wantList(t, w.o, overlay.Root, "g")
		wantRead(t, w.o, "g", "n")
		w.reopen()
	}
}

// unionMadeAgain is fault 3: a directory that is made again is empty.
func (s suite) unionMadeAgain(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) {
		mkdir(t, l, "d", "d/s")
		write(t, l, "d/x", "")
		write(t, l, "d/s/y", "")
	})
	for _, name := range []overlay.Name{"d/s/y", "d/s", "d/x", "d"} {
		ok(t, "Remove", w.o.Remove(ctx, name))
	}
	mkdir(t, w.o, "d")
	wantList(t, w.o, "d")
	mkdir(t, w.o, "d/s")
	wantList(t, w.o, "d/s")
	ok(t, "Symlink", w.o.Symlink(ctx, "nowhere", "d/l", perm0))
	for range 2 {
		wantList(t, w.o, "d", "l", "s")
		lstat(t, w.o, "d/l")
		wantGone(t, w.o, "d/x")
		w.reopen()
	}
	for _, name := range []overlay.Name{"d/l", "d/s", "d"} {
		ok(t, "Remove", w.o.Remove(ctx, name))
	}
	wantList(t, w.o, overlay.Root)
}

// unionRenameDirectory is fault 4: a directory of the project can be renamed,
// and again after it was frozen, and so can what is in it.
func (s suite) unionRenameDirectory(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) {
		mkdir(t, l, "p", "p/d", "p/d/e", "q")
		write(t, l, "p/d/e/f", "f")
		write(t, l, "p/g", "g")
		write(t, l, "q/h", "h")
	})
	ino := lstat(t, w.o, "p/d/e/f").Ino
	ok(t, "Rename", w.o.Rename(ctx, "p", "r", 0))
	w.freeze()
	ok(t, "Rename", w.o.Rename(ctx, "r/d", "q/d", 0))
	w.freeze()
	mkdir(t, w.o, "p")
	ok(t, "Rename", w.o.Rename(ctx, "q/d/e", "p/e", 0))
	ok(t, "Rename", w.o.Rename(ctx, "q", "r/q", 0))
	ok(t, "Exchange", w.o.Rename(ctx, "p", "r/q", overlay.Exchange))
	for range 2 {
		wantList(t, w.o, overlay.Root, "p", "r")
		wantList(t, w.o, "r", "g", "q")
		wantList(t, w.o, "p", "d", "h")
		wantList(t, w.o, "p/d")
		wantRead(t, w.o, "r/q/e/f", "f")
		if got := lstat(t, w.o, "r/q/e/f").Ino; got != ino {
			t.Errorf("the inode number of a file below moved directories: got %#x, want %#x", got, ino)
		}
		w.reopen()
	}
}

// unionExchangeDirectory checks that a new directory takes nothing over from
// the lower directory whose name it gets.
func (s suite) unionExchangeDirectory(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) {
		mkdir(t, l, "p")
		write(t, l, "p/f", "f")
	})
	mkdir(t, w.o, "new")
	ok(t, "Exchange", w.o.Rename(ctx, "new", "p", overlay.Exchange))
	for range 2 {
		wantList(t, w.o, "p")
		wantList(t, w.o, "new", "f")
		w.reopen()
	}
}

// unionRemoveLarge is fault 6: a large merged directory is listed once, and
// empty when all is removed.
func (s suite) unionRemoveLarge(t *testing.T) {
	const n = 300
	name := func(i int) overlay.Name {
		return overlay.Name("d/" + string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}))
	}
	w := s.over(t, func(l overlay.Layer) {
		mkdir(t, l, "d")
		for i := range n {
			write(t, l, name(i), "")
		}
	})
	for i := n / 2; i < n+n/2; i++ {
		write(t, w.o, name(i), "")
	}
	names := list(t, w.o, "d")
	if len(names) != n+n/2 || !slices.IsSorted(names) {
		t.Errorf("ReadDir lists %d names, want %d, sorted", len(names), n+n/2)
	}
	for _, base := range names {
		ok(t, "Remove", w.o.Remove(ctx, overlay.Name("d").Join(base)))
	}
	ok(t, "Remove", w.o.Remove(ctx, "d"))
	wantList(t, w.o, overlay.Root)
}

// unionCopyUpAttributes checks what a copy-up leaves alone.
func (s suite) unionCopyUpAttributes(t *testing.T) {
	w := s.over(t, func(l overlay.Layer) {
		mkdir(t, l, "d", "d/e")
		write(t, l, "d/e/f", "content")
		_, err := l.SetAttr(ctx, "d/e/f", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o4711})
		ok(t, "SetAttr", err)
	})
	type seen struct{ dir, sub, file overlay.Attr }
	look := func() seen { return seen{lstat(t, w.o, "d"), lstat(t, w.o, "d/e"), lstat(t, w.o, "d/e/f")} }
	before := look()
	h, err := w.o.Open(ctx, "d/e/f")
	ok(t, "Open", err)
	ok(t, "CopyUp", w.o.CopyUp(ctx, "d/e/f"))
	after := look()
	for _, c := range []struct {
		name string
		a, b overlay.Attr
	}{{"d", before.dir, after.dir}, {"d/e", before.sub, after.sub}, {"d/e/f", before.file, after.file}} {
		if c.a.Ino != c.b.Ino || c.a.Mode != c.b.Mode || !c.a.Mtime.Equal(c.b.Mtime) || c.a.UID != c.b.UID {
			t.Errorf("%q after CopyUp: got %+v, was %+v", c.name, c.b, c.a)
		}
	}
	if a, err := h.Stat(ctx); err != nil || a.Ino != after.file.Ino {
		t.Errorf("Stat of a handle opened before: got number %#x, %v, want %#x", a.Ino, err, after.file.Ino)
	}
	ok(t, "Close", h.Close())
	wh := create(t, w.o, "d/e/f", overlay.Truncate)
	finish(t, wh)
	wantRead(t, w.o, "d/e/f", "")
}

// linkedProject is a project with a file that has three names.
func linkedProject(t *testing.T) func(overlay.Layer) {
	return func(l overlay.Layer) {
		mkdir(t, l, "d")
		write(t, l, "d/a", "old")
		for _, name := range []overlay.Name{"b", "c"} {
			ok(t, "Link", as[overlay.Linker](t, l).Link(ctx, "d/a", name))
		}
	}
}

// unionHardLinks checks that names of one lower file stay names of one file.
func (s suite) unionHardLinks(t *testing.T) {
	w := s.over(t, linkedProject(t))
	ino := lstat(t, w.o, "b").Ino
	write(t, w.o, "d/a", "new")
	for range 2 {
		for _, name := range []overlay.Name{"b", "c", "d/a"} {
			wantRead(t, w.o, name, "new")
			if a := lstat(t, w.o, name); a.Ino != ino || a.Nlink != 3 {
				t.Errorf("%q: got number %#x, nlink %d, want %#x, 3", name, a.Ino, a.Nlink, ino)
			}
		}
		w.reopen()
	}
	ok(t, "Remove", w.o.Remove(ctx, "d/a"))
	ok(t, "Rename onto another name", w.o.Rename(ctx, "b", "c", 0))
	wantRead(t, w.o, "b", "new")
	if a := lstat(t, w.o, "b"); a.Nlink != 2 {
		t.Errorf("nlink with two names left: got %d", a.Nlink)
	}
}

// unionHardLinksFrozen is the same when the copy was made in a layer that is
// frozen now, and none of the names that were copied is left.
func (s suite) unionHardLinksFrozen(t *testing.T) {
	w := s.over(t, linkedProject(t))
	write(t, w.o, "b", "new")
	ok(t, "Remove", w.o.Remove(ctx, "b"))
	w.freeze()
	wantRead(t, w.o, "c", "new")
	h := create(t, w.o, "d/a", overlay.Append)
	put(t, h, "er", 0)
	finish(t, h)
	wantRead(t, w.o, "c", "newer")
	if a, c := lstat(t, w.o, "d/a"), lstat(t, w.o, "c"); a.Ino != c.Ino {
		t.Errorf("two names have numbers %#x and %#x", a.Ino, c.Ino)
	}
	_, err := w.o.Lstat(ctx, "b")
	want(t, "Lstat of the removed name", err, syscall.ENOENT)
}
