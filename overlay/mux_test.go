package overlay_test

import (
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/layertest"
	"github.com/wsfs/wsfs/overlay/memlayer"
	"github.com/wsfs/wsfs/router"
)

// newMux returns a Mux of layers in memory with the built-in routes, and those
// layers.
func newMux(t testing.TB, rules router.Rules) (*overlay.Mux, map[router.Segment]overlay.Upper) {
	t.Helper()
	table, err := router.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	layers := map[router.Segment]overlay.Upper{router.Local: memlayer.New(memlayer.Options{})}
	for i, r := range table.Routes() {
		if layers[r.Segment] == nil {
			layers[r.Segment] = memlayer.New(memlayer.Options{Source: overlay.Store, Dev: uint64(100 + i)})
		}
	}
	m, err := overlay.NewMux(table, layers)
	if err != nil {
		t.Fatal(err)
	}
	return m, layers
}

// TestMuxRoutes checks what routes put into the tree, and where files go.
func TestMuxRoutes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, layers := newMux(t, router.Rules{Agent: "a"})
	project := memlayer.New(memlayer.Options{Source: overlay.Host})
	mkdir(t, project, "memory", "agents", "agents/a", "agents/a/other")
	write(t, project, "memory/m", "template")
	write(t, project, "MEMORY.md", "template")
	write(t, project, "skills", "a file that a route hides")
	o := overlay.New(m, project)

	wantList(t, o, ".", "MEMORY.md", "agents", "knowledge", "memory", "plans", "skills", "subagents")
	wantList(t, o, "agents", "a")
	wantList(t, o, "agents/a", "other", "sessions", "tasks")
	wantList(t, o, "skills")
	for _, dir := range []overlay.Name{"memory", "agents", "agents/a", "agents/a/sessions", overlay.Root} {
		want(t, "Remove("+string(dir)+")", o.Remove(ctx, dir), syscall.EBUSY)
		want(t, "Rename("+string(dir)+")", o.Rename(ctx, dir, "x", 0), syscall.EBUSY)
	}

	write(t, o, "memory/m", "mine")
	write(t, o, "MEMORY.md", "mine")
	write(t, o, "agents/a/local", "disk")
	for _, f := range []struct {
		segment router.Segment
		name    overlay.Name
		holds   string
	}{{"memory", "m", "mine"}, {"root", "MEMORY.md", "mine"}, {router.Local, "agents/a/local", "disk"}} {
		if got := read(t, layers[f.segment], f.name); got != f.holds {
			t.Errorf("%q of segment %q holds %q, want %q", f.name, f.segment, got, f.holds)
		}
	}
	before, err := o.Lstat(ctx, "agents")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(ctx, "MEMORY.md"); err != nil {
		t.Fatal(err)
	}
	o = overlay.New(m, project)
	wantList(t, o, ".", "agents", "knowledge", "memory", "plans", "skills", "subagents")
	if after, err := o.Lstat(ctx, "agents"); err != nil || after.Ino != before.Ino {
		t.Errorf("Lstat(agents) when the disk has it: got number %#x, %v, want %#x", after.Ino, err, before.Ino)
	}
	if got := read(t, project, "memory/m"); got != "template" {
		t.Errorf("the project's memory/m holds %q, want template", got)
	}
}

// TestMuxMove saves a file of a store the way editors do, and moves files both
// ways over a boundary.
func TestMuxMove(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, layers := newMux(t, router.Rules{Agent: "a"})
	project := memlayer.New(memlayer.Options{Source: overlay.Host})
	write(t, project, "README", "readme")
	write(t, project, "MEMORY.md", "old")
	o := overlay.New(m, project)

	write(t, o, ".tmp", "new")
	if err := o.Rename(ctx, ".tmp", "MEMORY.md", 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, layers["root"], "MEMORY.md"); got != "new" {
		t.Errorf("MEMORY.md holds %q, want new", got)
	}
	if err := o.Rename(ctx, "README", "memory/r", overlay.NoReplace); err != nil {
		t.Fatal(err)
	}
	wantList(t, o, ".", "MEMORY.md", "agents", "knowledge", "memory", "plans", "skills", "subagents")
	if err := o.Rename(ctx, "memory/r", "back", 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, o, "back"); got != "readme" {
		t.Errorf("back holds %q, want readme", got)
	}
	wantList(t, o, "memory")

	mkdir(t, o, "d", "memory/d")
	want(t, "Rename of a directory", o.Rename(ctx, "d", "memory/e", 0), syscall.EXDEV)
	want(t, "Rename onto a directory", o.Rename(ctx, "back", "memory/d", 0), syscall.EISDIR)
	want(t, "Link", o.Link(ctx, "back", "memory/b"), syscall.EXDEV)
	want(t, "Exchange", o.Rename(ctx, "back", "MEMORY.md", overlay.Exchange), syscall.EXDEV)
	want(t, "NoReplace", o.Rename(ctx, "back", "MEMORY.md", overlay.NoReplace), syscall.EEXIST)
}

// TestMuxLocal keeps some files of a routed directory on the disk.
func TestMuxLocal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, layers := newMux(t, router.Rules{Agent: "a", Local: []string{"**/*.sqlite"}})
	o := overlay.New(m)
	mkdir(t, o, "memory/d", "memory/e")
	write(t, o, "memory/d/index.sqlite", "db")
	write(t, o, "memory/d/note", "note")
	wantList(t, o, "memory/d", "index.sqlite", "note")
	wantList(t, layers["memory"], "d", "note")
	wantList(t, layers[router.Local], "memory/d", "index.sqlite")
	want(t, "Rename of a directory with local files", o.Rename(ctx, "memory/d", "memory/f", 0), syscall.EXDEV)
	if err := o.Remove(ctx, "memory/d/note"); err != nil {
		t.Fatal(err)
	}
	want(t, "Remove of a directory with local files", o.Remove(ctx, "memory/d"), syscall.ENOTEMPTY)
	if err := o.Remove(ctx, "memory/d/index.sqlite"); err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(ctx, "memory/d"); err != nil {
		t.Fatal(err)
	}
	wantList(t, layers[router.Local], "memory")
	wantList(t, o, "memory", "e")
}

// TestMuxRandom runs the suite of unions on a Mux with a route in the middle of
// the names that it uses.
func TestMuxRandom(t *testing.T) {
	t.Parallel()
	builtin, err := router.New(router.Rules{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	rules := router.Rules{Agent: "a", Routes: []router.Rule{{Prefix: "b"}}}
	for _, r := range builtin.Routes() {
		rules.NoRoute = append(rules.NoRoute, r.Prefix)
	}
	table, err := router.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	layertest.RunOverlay(t, layertest.Config{
		New: func(t layertest.TB, _ string) overlay.Upper {
			layers := map[router.Segment]overlay.Upper{router.Local: memlayer.New(memlayer.Options{})}
			for _, r := range table.Routes() {
				layers[r.Segment] = memlayer.New(memlayer.Options{Source: overlay.Store, Dev: 2})
			}
			m, err := overlay.NewMux(table, layers)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return m
		},
		Abilities: layertest.All,
		Route:     "b",
	})
}
