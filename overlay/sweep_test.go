package overlay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/errlayer"
	"github.com/wsfs/wsfs/overlay/memlayer"
	"github.com/wsfs/wsfs/router"
)

// A scenario is an operation of several steps on an Overlay.
type scenario struct {
	name  string
	lower func(t testing.TB, l overlay.Layer) // makes the project
	upper func(t testing.TB, l overlay.Layer) // changes the tree beforehand; may be nil
	do    func(ctx context.Context, o *overlay.Overlay) error
	// doubles: a failure may leave the file under both names.
	doubles bool
}

// project is what most scenarios begin with.
func project(t testing.TB, l overlay.Layer) {
	t.Helper()
	mkdir(t, l, "d", "d/e", "p")
	write(t, l, "d/e/f", "f")
	write(t, l, "d/e/g", "g")
	write(t, l, "a", "a")
	if err := l.(overlay.Linker).Link(context.Background(), "a", "p/b"); err != nil {
		t.Fatal(err)
	}
}

func rename(from, to overlay.Name, flag overlay.RenameFlag) func(context.Context, *overlay.Overlay) error {
	return func(ctx context.Context, o *overlay.Overlay) error { return o.Rename(ctx, from, to, flag) }
}

func remove(names ...overlay.Name) func(testing.TB, overlay.Layer) {
	return func(t testing.TB, l overlay.Layer) {
		t.Helper()
		for _, name := range names {
			if err := l.Remove(context.Background(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// overwrite writes text to an existing file.
func overwrite(name overlay.Name, flag overlay.OpenFlag, text string) func(context.Context, *overlay.Overlay) error {
	return func(ctx context.Context, o *overlay.Overlay) error {
		h, err := o.OpenFile(ctx, name, flag, overlay.Perm{Mode: 0o644})
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.WriteAt([]byte(text), 0)
		return err
	}
}

var scenarios = []scenario{
	{name: "copy up", do: func(ctx context.Context, o *overlay.Overlay) error {
		_, err := o.SetAttr(ctx, "d/e/f", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o600})
		return err
	}},
	{name: "append", do: overwrite("d/e/f", overlay.Append, "more")},
	{name: "rename a lower file", do: rename("d/e/f", "p/f", 0)},
	{name: "rename onto a lower file", do: rename("d/e/f", "a", 0)},
	{name: "rename onto a deleted file", upper: remove("a"), do: rename("d/e/f", "a", overlay.NoReplace)},
	{name: "rename a lower directory", do: rename("d", "p/d", 0)},
	{name: "rename a new directory onto a deleted one",
		upper: func(t testing.TB, l overlay.Layer) {
			mkdir(t, l, "new")
			write(t, l, "new/n", "n")
			remove("p/b", "p")(t, l)
		},
		do: rename("new", "p", 0)},
	{name: "rename a lower directory onto an emptied one", upper: remove("p/b"), do: rename("d", "p", 0)},
	{name: "exchange a new and a lower directory",
		upper: func(t testing.TB, l overlay.Layer) { mkdir(t, l, "new") },
		do:    rename("new", "d", overlay.Exchange)},
	{name: "exchange two lower files", do: rename("d/e/f", "a", overlay.Exchange)},
	{name: "mkdir of a deleted directory", upper: remove("p/b", "p"),
		do: func(ctx context.Context, o *overlay.Overlay) error {
			return o.Mkdir(ctx, "p", overlay.Perm{Mode: 0o755})
		}},
	{name: "mkdir in a lower directory", do: func(ctx context.Context, o *overlay.Overlay) error {
		return o.Mkdir(ctx, "d/e/new", overlay.Perm{Mode: 0o755})
	}},
	{name: "remove a lower file", do: func(ctx context.Context, o *overlay.Overlay) error { return o.Remove(ctx, "d/e/f") }},
	{name: "remove an emptied directory", upper: remove("p/b"),
		do: func(ctx context.Context, o *overlay.Overlay) error { return o.Remove(ctx, "p") }},
	{name: "link a lower file", do: func(ctx context.Context, o *overlay.Overlay) error { return o.Link(ctx, "d/e/f", "p/l") }},
	{name: "copy up a second name",
		upper: func(t testing.TB, l overlay.Layer) { write(t, l, "a", "written") },
		do: func(ctx context.Context, o *overlay.Overlay) error {
			_, err := o.Lstat(ctx, "p/b")
			return err
		}},
	{name: "remove a second name",
		upper: func(t testing.TB, l overlay.Layer) { write(t, l, "a", "written") },
		do:    func(ctx context.Context, o *overlay.Overlay) error { return o.Remove(ctx, "p/b") }},
	{name: "rename onto a second name",
		upper: func(t testing.TB, l overlay.Layer) { write(t, l, "a", "written") },
		do:    rename("d/e/f", "p/b", 0)},
	{name: "move to a store", do: rename("d/e/f", "memory/f", 0), doubles: true},
	{name: "save in a store",
		upper: func(t testing.TB, l overlay.Layer) {
			write(t, l, "MEMORY.md", "old")
			write(t, l, "tmp", "new")
		},
		do: rename("tmp", "MEMORY.md", 0), doubles: true},
	{name: "move from a store onto a lower file",
		upper: func(t testing.TB, l overlay.Layer) { write(t, l, "memory/m", "m") },
		do:    rename("memory/m", "a", 0), doubles: true},
	{name: "create on the way to a route", do: overwrite("agents/a/f", overlay.Create, "")},
}

// TestSweep fails every step of every scenario, once and for good, and checks
// that the tree that another Overlay then shows is the old or the new one, and
// in order.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios {
		if sc.lower == nil {
			sc.lower = project
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			before, after := sc.outcome(t)
			errlayer.Sweep(t, func(t *testing.T, try errlayer.Try) bool {
				return sc.try(t, try, before, after)
			})
		})
	}
}

// A bench is the layers of a run.
type bench struct {
	lower, disk, root, memory *memlayer.Layer
	table                     *router.Table
}

// newBench returns the layers after the scenario's preparations.
func (sc scenario) newBench(t testing.TB) bench {
	t.Helper()
	b := bench{
		lower: memlayer.New(memlayer.Options{}), disk: memlayer.New(memlayer.Options{}),
		root:   memlayer.New(memlayer.Options{Source: overlay.Store, Dev: 2}),
		memory: memlayer.New(memlayer.Options{Source: overlay.Store, Dev: 3}),
	}
	var err error
	b.table, err = router.New(router.Rules{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	sc.lower(t, b.lower)
	if sc.upper != nil {
		sc.upper(t, b.overlay(t, nil))
	}
	return b
}

// overlay returns an Overlay of the layers, with plan before each call of an
// upper one unless it is nil.
func (b bench) overlay(t testing.TB, plan *errlayer.Plan) *overlay.Overlay {
	t.Helper()
	wrap := func(u overlay.Upper) overlay.Upper {
		if plan == nil {
			return u
		}
		return errlayer.New(u, plan)
	}
	layers := make(map[router.Segment]overlay.Upper)
	for _, r := range b.table.Routes() {
		layers[r.Segment] = wrap(b.memory)
		if r.Segment != "memory" {
			layers[r.Segment] = wrap(memlayer.New(memlayer.Options{Dev: 4}))
		}
	}
	layers[router.Local], layers["root"] = wrap(b.disk), wrap(b.root)
	m, err := overlay.NewMux(b.table, layers)
	if err != nil {
		t.Fatal(err)
	}
	return overlay.New(m, b.lower)
}

// outcome returns the tree before and after the operation.
func (sc scenario) outcome(t *testing.T) (before, after string) {
	t.Helper()
	b := sc.newBench(t)
	before = dump(t, b.overlay(t, nil))
	if err := sc.do(t.Context(), b.overlay(t, nil)); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	return before, dump(t, b.overlay(t, nil))
}

// try is one run of the scenario.
func (sc scenario) try(t *testing.T, try errlayer.Try, before, after string) bool {
	t.Helper()
	b := sc.newBench(t)
	o := b.overlay(t, try.Plan)
	project := dump(t, b.lower)
	try.Arm()
	err := sc.do(t.Context(), o)
	failed, calls := try.Plan.Disarm()
	if failed && err == nil && !strings.HasPrefix(calls[len(calls)-1], "lstat") {
		t.Logf("the operation succeeded in spite of %s", calls[len(calls)-1])
	}
	live := dump(t, o) // before another Overlay may copy anything up
	again := b.overlay(t, nil)
	got := dump(t, again)
	switch {
	case got == after:
	case err == nil:
		t.Errorf("after success the tree is\n%s\nwant\n%s", got, after)
	case got == before:
	case sc.doubles && covers(got, before, after):
	default:
		t.Errorf("after %v at %s the tree is\n%s\nwant\n%s\nor\n%s", err, calls[len(calls)-1], got, before, after)
	}
	if live != got {
		t.Errorf("after %v at %s the Overlay that failed shows\n%s\nanother\n%s", err, calls[len(calls)-1], live, got)
	}
	if err := overlay.Check(t.Context(), again); err != nil {
		t.Errorf("Check after a fault at %s: %v", calls[len(calls)-1], err)
	}
	if got := dump(t, b.lower); got != project {
		t.Errorf("the project is\n%s\nwas\n%s", got, project)
	}
	return failed
}

// covers reports whether got has the lines of after and those of before that
// after does not contradict: what was to be removed is still there.
func covers(got, before, after string) bool {
	lines := strings.Split(got, "\n")
	for _, line := range strings.Split(after, "\n") {
		if !slices.Contains(lines, line) {
			return false
		}
	}
	for _, line := range lines {
		if !strings.Contains(before, line) && !strings.Contains(after, line) {
			return false
		}
	}
	return true
}

// dump describes the tree of l.
func dump(t testing.TB, l overlay.Reader) string {
	t.Helper()
	var all []string
	var walk func(overlay.Name)
	walk = func(dir overlay.Name) {
		for _, base := range list(t, l, dir) {
			name := dir.Join(base)
			a, err := l.Lstat(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf("%s %o", name, a.Mode)
			if a.IsRegular() {
				line += " " + read(t, l, name)
			}
			all = append(all, line)
			if a.IsDir() {
				walk(name)
			}
		}
	}
	walk(overlay.Root)
	return strings.Join(all, "\n")
}
