package layertest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// testModel compares random operations with the model.
func (s suite) testModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, dir := s.make(t)
		m := newModel()
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			if s.Reopen != nil && rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
				u = s.Reopen(t, dir, u)
			} else {
				o := drawOp(t, s.Abilities)
				t.Logf("%v", o)
				m.both(t, u, o)
			}
			m.compare(t, u)
		}
		check(t, u)
	})
}

// check checks the layer l, if it can be.
func check(t TB, l any) {
	t.Helper()
	if c, is := overlay.As[overlay.Checker](l); is {
		if err := c.Check(ctx); err != nil {
			t.Fatalf("Check: %v", err)
		}
	}
}

// RunOverlay tests the layer as the upper of an Overlay, and frozen as its
// lowers.
func RunOverlay(t *testing.T, c Config) {
	s := suite{c}
	t.Run("Random", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, s.randomOverlay)
	})
	if s.Route == "" { // its tests use the route's name for other things
		s.runUnion(t)
	}
}

// A tower is an Overlay that grows.
type tower struct {
	suite
	t      TB
	o      *overlay.Overlay
	upper  overlay.Upper
	dir    string           // of upper
	lowers []overlay.Reader // top first; the last is the project
}

// newTower returns an Overlay of a new upper over lowers.
func (s suite) newTower(t TB, lowers ...overlay.Reader) *tower {
	t.Helper()
	w := &tower{suite: s, t: t, lowers: lowers}
	w.upper, w.dir = s.make(t)
	w.mount()
	return w
}

// mount makes a new Overlay of the layers.
func (w *tower) mount() { w.o = overlay.New(w.upper, w.lowers...) }

// freeze makes the upper a lower and puts an empty one on top.
func (w *tower) freeze() {
	w.t.Helper()
	var frozen overlay.Reader = w.upper
	if w.Freeze != nil {
		frozen = w.Freeze(w.t, w.dir, w.upper)
	}
	w.lowers = append([]overlay.Reader{frozen}, w.lowers...)
	w.upper, w.dir = w.make(w.t)
	w.mount()
}

// reopen opens the upper again.
func (w *tower) reopen() {
	w.t.Helper()
	if w.Reopen != nil {
		w.upper = w.Reopen(w.t, w.dir, w.upper)
	}
	w.mount()
}

// linked are the abilities that operations may need under an Overlay: without
// an index, names of one lower file become files of their own.
func (s suite) linked() Ability {
	if s.can(Index | Links) {
		return s.Abilities
	}
	return s.Abilities &^ Links
}

// randomOverlay is one random run.
func (s suite) randomOverlay(t *rapid.T) {
	project, m := s.drawLower(t, "project", s.linked())
	lowers := []overlay.Reader{project}
	if rapid.Bool().Draw(t, "with a template") {
		template, over := s.drawLower(t, "template", s.linked()&^Links)
		lowers = append([]overlay.Reader{template}, lowers...)
		m.root = union(over.root, m.root)
	}
	m.share()
	var before []string
	for _, l := range lowers {
		before = append(before, fingerprint(t, l))
	}
	if s.Route != "" {
		m.route(s.Route)
	}
	w := s.newTower(t, lowers...)
	m.compare(t, w.o)
	for range rapid.IntRange(1, 30).Draw(t, "operations") {
		s.step(t, w, m)
		m.compare(t, w.o)
	}
	if err := overlay.Check(ctx, w.o); err != nil {
		t.Fatalf("Check: %v", err)
	}
	for i, l := range lowers {
		if after := fingerprint(t, l); after != before[i] {
			t.Fatalf("lower %d is\n%s\nwas\n%s", i, after, before[i])
		}
	}
}

// drawLower returns a random lower that others may change, and its model.
func (s suite) drawLower(t *rapid.T, what string, abilities Ability) (*memlayer.Layer, *model) {
	l := memlayer.New(memlayer.Options{Source: overlay.Host})
	m := newModel()
	for range rapid.IntRange(0, 25).Draw(t, what) {
		o := drawOp(t, abilities)
		t.Logf("%s: %v", what, o)
		m.both(t, l, o)
	}
	return l, m
}

// union returns what top over bottom shows, which takes both apart.
func union(top, bottom *file) *file {
	if !top.isDir() || !bottom.isDir() {
		return top
	}
	for base, c := range bottom.children {
		over := top.children[base]
		if over == nil {
			top.children[base] = c
			continue
		}
		hide(c)
		top.children[base] = union(over, c)
	}
	return top
}

// hide notes that a name of f, and those below it, are not seen: how many links
// the files then have is not promised.
func hide(f *file) {
	f.names--
	f.shared = true
}

// step does something random to w and m.
func (s suite) step(t *rapid.T, w *tower, m *model) {
	first := 0
	if s.Route != "" {
		first = 1 // stores are not frozen
	}
	switch rapid.IntRange(first, 11).Draw(t, "step") {
	case 0:
		t.Logf("freeze")
		w.freeze()
		m.share()
	case 1:
		t.Logf("reopen")
		w.reopen()
	default:
		o := drawOp(t, s.linked())
		t.Logf("%v", o)
		var may []syscall.Errno
		if !s.can(Redirects) && o.kind == opRename {
			may = append(may, syscall.EXDEV)
		}
		if s.Route == "" {
			m.both(t, w.o, o, may...)
			return
		}
		s.stepAcross(t, w, m, o, may)
	}
}

// stepAcross does o, which may be about the route or cross its border.
func (s suite) stepAcross(t *rapid.T, w *tower, m *model, o op, may []syscall.Errno) {
	switch {
	case (o.a == s.Route || o.b == s.Route) && (o.kind == opRename || o.kind == opRemove):
		may = append(may, syscall.EBUSY)
	case (o.kind == opRename || o.kind == opLink) && o.a.Within(s.Route) != o.b.Within(s.Route):
		src, _ := m.find(o.a)
		if src == nil || !src.isRegular() || o.flag&overlay.Exchange != 0 || o.kind == opLink {
			may = append(may, syscall.EXDEV)
		} else if no := m.against(o); no == nil {
			m.leave(o.a) // it becomes a file of its own
		}
	}
	m.both(t, w.o, o, may...)
}

// fingerprint describes everything about the tree of l.
func fingerprint(t TB, l overlay.Reader) string {
	t.Helper()
	var all []string
	var walk func(overlay.Name)
	walk = func(dir overlay.Name) {
		for _, base := range list(t, l, dir) {
			name := dir.Join(base)
			a := lstat(t, l, name)
			data := ""
			if a.IsRegular() {
				data = read(t, l, name)
			}
			all = append(all, fmt.Sprintf("%s %+v %q", name, a, data))
			if a.IsDir() {
				walk(name)
			}
		}
	}
	walk(overlay.Root)
	slices.Sort(all)
	return strings.Join(all, "\n")
}
