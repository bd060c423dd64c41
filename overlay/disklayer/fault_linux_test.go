package disklayer

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

// A sabotage makes the n-th step fail, from 0.
type sabotage struct {
	armed atomic.Bool
	n     atomic.Int64
	hit   atomic.Bool
	err   error
}

func (s *sabotage) fault(string) error {
	if s.armed.Load() && s.n.Add(-1) == -1 {
		s.hit.Store(true)
		return s.err
	}
	return nil
}

// Each operation of several steps is made to fail at each step in turn. After an
// error nothing has changed; before the next start and after it the layer is
// whole.
func TestEveryStepMayFail(t *testing.T) {
	t.Parallel()
	sweep(t, newPlace)
}

// sweep makes each step of each operation fail, on uppers at new places.
func sweep(t *testing.T, newPlace func(t *testing.T) place) {
	p := newProject(t)
	put0(t, p.dir, "p", text)
	put0(t, p.dir, "h1", "linked")
	must(t, "Link", os.Link(p.dir+"/h1", p.dir+"/h2"))
	h1, err := p.Lstat(t.Context(), "h1")
	must(t, "Lstat", err)

	for name, op := range map[string]func(t *testing.T, u *Upper) error{
		"CopyUp":        func(t *testing.T, u *Upper) error { return p.copyUp(t, u, "p") },
		"CopyUp linked": func(t *testing.T, u *Upper) error { return p.copyUp(t, u, "h1") },
		"create over":   func(t *testing.T, u *Upper) error { return create(t, u, "gone") },
		"Mkdir over":    func(t *testing.T, u *Upper) error { return u.Mkdir(t.Context(), "gone", perm(0o2755)) },
		"Symlink over":  func(t *testing.T, u *Upper) error { return u.Symlink(t.Context(), "x", "gone", perm(0)) },
		"create":        func(t *testing.T, u *Upper) error { return create(t, u, "new") },
		"Remove":        func(t *testing.T, u *Upper) error { return u.Remove(t.Context(), "f") },
		"Remove marked": func(t *testing.T, u *Upper) error { return u.Remove(t.Context(), "marked") },
		"Remove copy":   func(t *testing.T, u *Upper) error { return u.Remove(t.Context(), "copy") },
		"Whiteout":      func(t *testing.T, u *Upper) error { return u.Whiteout(t.Context(), "f") },
		"Whiteout dir":  func(t *testing.T, u *Upper) error { return u.Whiteout(t.Context(), "marked") },
		"Whiteout none": func(t *testing.T, u *Upper) error { return u.Whiteout(t.Context(), "new") },
		"Link":          func(t *testing.T, u *Upper) error { return u.Link(t.Context(), "f", "new") },
		"Link over":     func(t *testing.T, u *Upper) error { return u.Link(t.Context(), "f", "gone") },
		"Link copy":     func(t *testing.T, u *Upper) error { return u.Link(t.Context(), "copy", "new") },
		"Rename":        func(t *testing.T, u *Upper) error { return u.Rename(t.Context(), "f", "g", overlay.LeaveWhiteout) },
		"Rename copy": func(t *testing.T, u *Upper) error {
			return u.Rename(t.Context(), "copy", "g", overlay.LeaveWhiteout|overlay.WriteBack)
		},
		"Rename dir":     func(t *testing.T, u *Upper) error { return u.Rename(t.Context(), "d", "marked", overlay.LeaveWhiteout) },
		"Rename dir off": func(t *testing.T, u *Upper) error { return u.Rename(t.Context(), "d", "gone", 0) },
		"Exchange":       func(t *testing.T, u *Upper) error { return u.Rename(t.Context(), "d", "copy", overlay.Exchange) },
		"truncate copy": func(t *testing.T, u *Upper) error {
			_, err := u.SetAttr(t.Context(), "copy", overlay.SetAttr{Valid: overlay.SetSize | overlay.SetMode, Size: 3, Mode: 0o600})
			return err
		},
		"LinkIndexed": func(t *testing.T, u *Upper) error { return u.LinkIndexed(t.Context(), h1.Ino, "new") },
		"DropIndexed": func(t *testing.T, u *Upper) error { return u.DropIndexed(t.Context(), h1.Ino) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := int64(0); failStep(t, newPlace(t), p, n, op); n++ {
				if n > 100 {
					t.Fatal("the operation never succeeds")
				}
			}
		})
	}
}

func create(t *testing.T, u *Upper, name overlay.Name) error {
	w, err := u.OpenFile(t.Context(), name, overlay.Create|overlay.Excl, perm(0o640))
	if err == nil {
		w.Close()
	}
	return err
}

// failStep has step n of op fail and reports whether there was such a step.
func failStep(t *testing.T, at place, p project, n int64, op func(t *testing.T, u *Upper) error) bool {
	t.Helper()
	s := &sabotage{err: syscall.ENOSPC}
	u := at.open(t, Options{fault: s.fault})
	ctx := t.Context()
	write(t, u, "f", "f")
	write(t, u, "g", "g")
	for _, dir := range []overlay.Name{"d", "marked"} {
		must(t, "Mkdir", u.Mkdir(ctx, dir, perm(0o755)))
	}
	write(t, u, "d/x", "x")
	must(t, "Whiteout", u.Whiteout(ctx, "marked/w"))
	must(t, "Whiteout", u.Whiteout(ctx, "gone"))
	put0(t, p.dir, "copy", "copy")
	must(t, "CopyUp", p.copyUp(t, u, "copy"))
	if strings.HasSuffix(t.Name(), "Indexed") {
		must(t, "CopyUp", p.copyUp(t, u, "h1"))
	}
	before := snapshotOf(t, u)
	s.n.Store(n)
	s.armed.Store(true)
	err := op(t, u)
	s.armed.Store(false)
	after := snapshotOf(t, u)
	if err != nil && after != before {
		t.Errorf("step %d failed with %v, and the layer went from\n%s\nto\n%s", n, err, before, after)
	}
	if err != nil && !s.hit.Load() {
		t.Errorf("failed without a reason: %v", err)
	}
	if err == nil && after == before && !strings.HasSuffix(t.Name(), "DropIndexed") {
		t.Errorf("step %d: nothing happened", n)
	}
	if err := u.Check(ctx); err != nil {
		t.Errorf("Check after step %d failed: %v", n, err)
	}
	must(t, "Close", u.Close())
	u = at.open(t, Options{alone: true})
	if got := snapshotOf(t, u); got != after {
		t.Errorf("after a new start the layer went from\n%s\nto\n%s", after, got)
	}
	if err := u.Check(ctx); err != nil {
		t.Errorf("Check after a new start: %v", err)
	}
	must(t, "Close", u.Close())
	return s.hit.Load()
}

// snapshotOf describes the whole layer.
func snapshotOf(t *testing.T, u *Upper) (all string) {
	t.Helper()
	var dir func(name overlay.Name)
	dir = func(name overlay.Name) {
		entries, err := u.ReadDir(t.Context(), name)
		must(t, "ReadDir", err)
		gone, err := u.Marks(t.Context(), name)
		must(t, "Marks", err)
		for _, g := range gone {
			all += fmt.Sprintf("%s gone\n", name.Join(g))
		}
		for _, e := range entries {
			child := name.Join(e.Name)
			a, err := u.Lstat(t.Context(), child)
			must(t, "Lstat", err)
			abs, err := u.Absence(t.Context(), child)
			must(t, "Absence", err)
			nlink := a.Nlink
			if a.IsDir() {
				nlink = 1
			}
			all += fmt.Sprintf("%s %o %d %d %+v", child, a.Mode, nlink, a.Origin, abs)
			if a.IsRegular() {
				all += fmt.Sprintf(" %d %.8s", a.Size, read(t, u, child))
			}
			all += "\n"
			if a.IsDir() {
				dir(child)
			}
		}
	}
	dir(overlay.Root)
	return all
}
