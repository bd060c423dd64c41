package router_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/wsfs/wsfs/router"
)

// A fataler is a test, a benchmark or a property under test.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// table returns the table of rules written as on the command line.
func table(t fataler, r router.Rules, routes ...string) *router.Table {
	t.Helper()
	for _, s := range routes {
		rule, err := router.ParseRoute(s)
		if err != nil {
			t.Fatalf("ParseRoute(%q): %v", s, err)
		}
		r.Routes = append(r.Routes, rule)
	}
	if r.Agent == "" {
		r.Agent = "a"
	}
	tab, err := router.New(r)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return tab
}

func TestRoute(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("d/", 5000) + "f"
	tab := table(t, router.Rules{Agent: "a/b", Local: []string{"skills/.cache", "knowledge/**/*.tmp"}},
		"docs/notes/=agent", "docs/notes/own.md", "memory/private/=session", "MEMORY.md=global", "root/", "agents/<agent>/x/")
	for _, c := range []struct {
		name    string
		segment router.Segment
		rest    string
	}{
		{".", "", "."},
		{"memory", "memory", "."},
		{"memory/a", "memory", "a"},
		{"memory/a/b", "memory", "a/b"},
		{"memoryX/a", "", "memoryX/a"},
		{"memor", "", "memor"},
		{"a/memory/b", "", "a/memory/b"},
		{"Memory/a", "", "Memory/a"},
		{"MEMORY.md", "root=global", "MEMORY.md"},
		{"AGENTS.md", "root", "AGENTS.md"},
		{"MEMORY.md.bak", "", "MEMORY.md.bak"},
		{"AGENTS.md/x/y", "root", "AGENTS.md/x/y"},
		{"memory/private", "memory%2Fprivate", "."},
		{"memory/private/k", "memory%2Fprivate", "k"},
		{"memory/privateer", "memory", "privateer"},
		{"docs", "", "docs"},
		{"docs/notes", "docs%2Fnotes", "."},
		{"docs/notes/own.md", "docs%2Fnotes%2Fown.md", "own.md"},
		{"docs/notes/own.md2", "docs%2Fnotes", "own.md2"},
		{"root/x", "%72oot", "x"},
		{"agents", "", "agents"},
		{"agents/a%2Fb", "", "agents/a%2Fb"},
		{"agents/a%2Fb/sessions/s1", "sessions", "s1"},
		{"agents/a%2Fb/tasks", "tasks", "."},
		{"agents/a%2Fb/x/1", "agents%2Fa%252Fb%2Fx", "1"},
		{"agents/other/sessions/s1", "", "agents/other/sessions/s1"},
		{"skills/.cache", "", "skills/.cache"},
		{"skills/.cache/deep/f", "", "skills/.cache/deep/f"},
		{"skills/.cached", "skills", ".cached"},
		{"knowledge/x.tmp", "", "knowledge/x.tmp"},
		{"knowledge/a/b/x.tmp/in", "", "knowledge/a/b/x.tmp/in"},
		{"knowledge/a/b/x.md", "knowledge", "a/b/x.md"},
		{"memory/\xff\xfe\n", "memory", "\xff\xfe\n"},
		{"\xff\xfe", "", "\xff\xfe"},
		{long, "", long},
		{"memory/" + long, "memory", long},
	} {
		r, rest := tab.Route(c.name)
		if r.Segment != c.segment || rest != c.rest {
			t.Errorf("Route(%.60q): got segment %q, rest %.60q, want %q, %.60q", c.name, r.Segment, rest, c.segment, c.rest)
		}
	}
}

// TestCleanThenRoute is fault 22: one resolver on cleaned components.
func TestCleanThenRoute(t *testing.T) {
	t.Parallel()
	tab := table(t, router.Rules{})
	for _, c := range []struct {
		path    string
		segment router.Segment
	}{
		{"memory", "memory"}, {"memory/", "memory"}, {"memory//a", "memory"}, {"./memory/a", "memory"},
		{"/memory/a", "memory"}, {"memory/../src/a", ""}, {"src/../memory/a", "memory"}, {"../memory", "memory"},
		{"", ""}, {"/", ""}, {"..", ""}, {"memory/..", ""}, {"memoryX/a", ""}, {"MEMORY.md.bak", ""}, {"MEMORY.md", "root"},
	} {
		if r, _ := tab.Route(router.Clean(c.path)); r.Segment != c.segment {
			t.Errorf("Route(Clean(%q) = %q): got segment %q, want %q", c.path, router.Clean(c.path), r.Segment, c.segment)
		}
	}
}

func TestInnerAndHolds(t *testing.T) {
	t.Parallel()
	tab := table(t, router.Rules{NoRoute: []string{"plans", "knowledge/"}, Local: []string{"subagents"}},
		"docs/notes/", "memory/private/", "subagents/mine/")
	for _, c := range []struct {
		name  string
		inner []string
		holds bool
	}{
		{".", []string{"AGENTS.md", "MEMORY.md", "agents", "docs", "memory", "skills", "tools.json"}, true},
		{"agents", []string{"a"}, true},
		{"agents/a", []string{"sessions", "tasks"}, true},
		{"agents/b", nil, false},
		{"agents/a/sessions", nil, true},
		{"agents/a/sessions/s", nil, false},
		{"docs", []string{"notes"}, true},
		{"memory", []string{"private"}, true},
		{"memory/x", nil, false},
		{"MEMORY.md", nil, true},
		{"plans", nil, false},
		{"subagents", nil, false},
		{"src", nil, false},
	} {
		if got := tab.Inner(c.name); !slices.Equal(got, c.inner) {
			t.Errorf("Inner(%q): got %q, want %q", c.name, got, c.inner)
		}
		if got := tab.Holds(c.name); got != c.holds {
			t.Errorf("Holds(%q): got %v, want %v", c.name, got, c.holds)
		}
	}
}

func TestHoldsLocal(t *testing.T) {
	t.Parallel()
	tab := table(t, router.Rules{Local: []string{"skills/.cache/**", "knowledge/**/*.tmp", "memory/x/y"}})
	for name, want := range map[string]bool{
		"skills": true, "skills/.cache": true, "skills/a": false,
		"knowledge": true, "knowledge/any/depth": true,
		"memory": true, "memory/x": true, "memory/z": false, "plans": false,
	} {
		if got := tab.HoldsLocal(name); got != want {
			t.Errorf("HoldsLocal(%q): got %v, want %v", name, got, want)
		}
	}
	if r, _ := tab.Route("skills/.cache"); r.Segment != "skills" {
		t.Errorf("Route(skills/.cache) under pattern skills/.cache/**: got segment %q, want skills", r.Segment)
	}
}

func TestNoRoutes(t *testing.T) {
	t.Parallel()
	tab := table(t, router.Rules{Local: []string{"**"}}, "prompts/")
	if got := tab.Routes(); len(got) != 0 {
		t.Errorf("Routes with everything local: got %v, want none", got)
	}
	if tab.Holds(".") || tab.Inner(".") != nil {
		t.Errorf("Holds(.), Inner(.) with everything local: got %v, %q, want false, none", tab.Holds("."), tab.Inner("."))
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	tab := table(t, router.Rules{Scope: router.Agent}, "knowledge/=global", "sessions/", "tools.json=agent", "AGENTS.md=user")
	want := map[string]string{
		"AGENTS.md": "user root=user", "MEMORY.md": "agent root", "tools.json": "agent root", "memory": "agent memory",
		"knowledge": "global knowledge", "sessions": "agent %73essions", "agents/a/sessions": "agent sessions",
	}
	for _, r := range tab.Routes() {
		if w, ok := want[r.Prefix]; ok && w != string(r.Scope)+" "+string(r.Segment) {
			t.Errorf("route %v: got %s %s, want %s", r, r.Scope, r.Segment, w)
		}
	}
	if !slices.IsSortedFunc(tab.Routes(), func(a, b router.Route) int { return strings.Compare(a.Prefix, b.Prefix) }) {
		t.Errorf("Routes: not ascending: %v", tab.Routes())
	}
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	rule := func(s string) router.Rule {
		r, err := router.ParseRoute(s)
		if err != nil {
			t.Fatalf("ParseRoute(%q): %v", s, err)
		}
		return r
	}
	for _, c := range []struct {
		name  string
		rules router.Rules
		says  []string
	}{
		{"no agent", router.Rules{Agent: " "}, []string{"agent"}},
		{"one path twice", router.Rules{Routes: []router.Rule{rule("p/"), rule("p/=agent")}}, []string{`"p/"`, `"p/=agent"`}},
		{"file and directory", router.Rules{Routes: []router.Rule{rule("p/"), rule("p")}}, []string{`"p/"`, `"p"`}},
		{"built-in directory as file", router.Rules{Routes: []router.Rule{rule("memory")}}, []string{`"memory/"`, `"memory"`}},
		{"below a built-in file", router.Rules{Routes: []router.Rule{rule("MEMORY.md/x/")}}, []string{`"MEMORY.md/x/"`, `"MEMORY.md"`}},
		{"below a file", router.Rules{Routes: []router.Rule{rule("p"), rule("p/q/r")}}, []string{`"p"`, `"p/q/r"`}},
		{"no such built-in", router.Rules{NoRoute: []string{"prompts/"}}, []string{`"prompts/"`}},
		{"scope", router.Rules{Scope: "team"}, []string{"team"}},
		{"private scope", router.Rules{Scope: router.Private}, []string{"private"}},
		{"scope of a rule", router.Rules{Routes: []router.Rule{{Prefix: "p", Scope: "team"}}}, []string{`"p/=team"`}},
		{"root", router.Rules{Routes: []router.Rule{{Prefix: "./"}}}, []string{"root"}},
		{"parent", router.Rules{Routes: []router.Rule{{Prefix: "a/../../b"}}}, []string{".."}},
		{"local syntax", router.Rules{Local: []string{"a/[b"}}, []string{`"a/[b"`, "syntax"}},
		{"local absolute", router.Rules{Local: []string{"/a"}}, []string{`"/a"`}},
		{"local empty", router.Rules{Local: []string{""}}, []string{"empty"}},
		{"local too long", router.Rules{Local: []string{strings.Repeat("a/", 64)}}, []string{"63"}},
	} {
		if c.rules.Agent == "" {
			c.rules.Agent = "a"
		}
		_, err := router.New(c.rules)
		if err == nil {
			t.Errorf("%s: New: got no error", c.name)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: New: got %q, want it to name %s", c.name, err, s)
			}
		}
	}
}

func TestRouteDoesNotAllocate(t *testing.T) {
	tab := table(t, router.Rules{Local: []string{"skills/**/*.tmp"}}, "memory/private/")
	for _, name := range []string{".", "src/main.go", "memory/private/x", "MEMORY.md", "skills/a/b/c.md", "agents/b/c", strings.Repeat("d/", 3000) + "f"} {
		allocs := testing.AllocsPerRun(100, func() {
			tab.Route(name)
			tab.Inner(name)
			tab.Holds(name)
			tab.HoldsLocal(name)
		})
		if allocs != 0 {
			t.Errorf("lookups of %.30q: got %v allocations, want 0", name, allocs)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	tab := table(b, router.Rules{Local: []string{"skills/**/*.tmp"}})
	for _, name := range []string{"src/cmd/compile/internal/ssa/rewrite.go", "main.go", "memory/2026/notes.md", "skills/a/b/c.md"} {
		b.Run(strings.ReplaceAll(name, "/", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tab.Route(name)
			}
		})
	}
}
