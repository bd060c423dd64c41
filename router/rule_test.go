package router_test

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/router"
)

func TestParseRoute(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]router.Rule{
		"prompts/":               {Prefix: "prompts"},
		"prompts/=agent":         {Prefix: "prompts", Scope: router.Agent},
		"./a//b/./":              {Prefix: "a/b"},
		"NOTES.md":               {Prefix: "NOTES.md", File: true},
		"docs/N.md=global":       {Prefix: "docs/N.md", File: true, Scope: router.Global},
		"a=b/":                   {Prefix: "a=b"},
		"a=b=user":               {Prefix: "a=b", File: true, Scope: router.User},
		"agents/<agent>/x/":      {Prefix: "agents/<agent>/x"},
		"\xff/":                  {Prefix: "\xff"},
		"prompts/=session":       {Prefix: "prompts", Scope: router.Session},
		" /":                     {Prefix: " "},
		strings.Repeat("n", 255): {Prefix: strings.Repeat("n", 255), File: true},
	} {
		got, err := router.ParseRoute(s)
		if err != nil || got != want {
			t.Errorf("ParseRoute(%q): got %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "/", "/abs/", ".", "./", "..", "../a", "a/../b", "a/..", "a\x00b", "=agent", "prompts/=", "prompts/=team", "a=b", strings.Repeat("n", 256)} {
		if got, err := router.ParseRoute(s); err == nil {
			t.Errorf("ParseRoute(%q): got %+v, want an error", s, got)
		} else if !strings.Contains(err.Error(), "route ") {
			t.Errorf("ParseRoute(%q): error %q does not name the rule", s, err)
		}
	}
}

// covers is what a local pattern means, written as the definition says it:
// the pattern matches the name or a directory above it.
func covers(pattern, name string) bool {
	p := strings.Split(pattern, "/")
	if p[len(p)-1] == "**" {
		p = append(p, "*") // at least one component, and what is below
	}
	n := strings.Split(name, "/")
	for i := 1; i <= len(n); i++ {
		if matchAll(p, n[:i]) {
			return true
		}
	}
	return false
}

func matchAll(p, n []string) bool {
	if len(p) == 0 {
		return len(n) == 0
	}
	if p[0] == "**" {
		return matchAll(p[1:], n) || len(n) > 0 && matchAll(p, n[1:])
	}
	if len(n) == 0 {
		return false
	}
	ok, _ := path.Match(p[0], n[0])
	return ok && matchAll(p[1:], n[1:])
}

func TestLocalPatterns(t *testing.T) {
	t.Parallel()
	element := rapid.SampledFrom([]string{"a", "b", "*", "**", "a*", "?", "[ab]", `\a`, "ab"})
	component := rapid.SampledFrom([]string{"a", "b", "ab", "c", "**", "*"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := "memory/" + strings.Join(rapid.SliceOfN(element, 1, 5).Draw(t, "pattern"), "/")
		rest := rapid.SliceOfN(component, 1, 6).Draw(t, "name")
		tab := table(t, router.Rules{Local: []string{pattern}})
		name := "memory/" + strings.Join(rest, "/")
		r, _ := tab.Route(name)
		if got, want := r.Segment == router.Local, covers(pattern, name); got != want {
			t.Fatalf("pattern %q, name %q: local is %v, want %v", pattern, name, got, want)
		}
		if r.Segment != router.Local {
			return
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if r, _ := tab.Route(dir); r.Segment != router.Local && !tab.HoldsLocal(dir) {
				t.Fatalf("pattern %q: %q is local, HoldsLocal(%q) is false", pattern, name, dir)
			}
		}
	})
}

// FuzzParseRoute: what is read is well formed, and String writes it back.
func FuzzParseRoute(f *testing.F) {
	for _, s := range []string{"prompts/=agent", "a", "../x", "a=b/", "a=user=user", "//", "a/./b/=global", "<agent>/", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := router.ParseRoute(s)
		if err != nil {
			return
		}
		if r.Prefix == "." || r.Prefix != router.Clean(r.Prefix) || strings.HasPrefix(r.Prefix, "../") {
			t.Fatalf("ParseRoute(%q): prefix %q is not a cleaned name", s, r.Prefix)
		}
		if back, err := router.ParseRoute(r.String()); err != nil || back != r {
			t.Fatalf("ParseRoute(%q) = %+v, but its String %q is read as %+v, %v", s, r, r.String(), back, err)
		}
	})
}

// FuzzRoute: a name has one route, of a prefix it is in, and the same rest
// that cutting the prefix off gives.
func FuzzRoute(f *testing.F) {
	for _, s := range []string{"memory/a", "memory", "MEMORY.md/x", "agents/a/sessions/s", "docs/notes/own.md", "memoryX", "memory/x.tmp", "\xff/\xff", "."} {
		f.Add(s, "memory/**/*.tmp")
	}
	f.Fuzz(func(t *testing.T, p, local string) {
		rule, err := router.ParseRoute("docs/notes/=agent")
		if err != nil {
			t.Fatal(err)
		}
		tab, err := router.New(router.Rules{Agent: "a", Routes: []router.Rule{rule}, Local: []string{local}})
		if err != nil {
			if tab, err = router.New(router.Rules{Agent: "a", Routes: []router.Rule{rule}}); err != nil {
				t.Fatal(err)
			}
		}
		name := router.Clean(p)
		r, rest := tab.Route(name)
		if again, rest2 := tab.Route(name); again != r || rest2 != rest {
			t.Fatalf("Route(%q): first %v %q, then %v %q", name, r, rest, again, rest2)
		}
		switch {
		case r == router.Route{}:
			if rest != name {
				t.Fatalf("Route(%q): local, but inside as %q", name, rest)
			}
		case !r.File && rest == ".":
			if name != r.Prefix {
				t.Fatalf("Route(%q): rest . of prefix %q", name, r.Prefix)
			}
		case r.File:
			if path.Dir(r.Prefix) == "." && rest != name || path.Dir(r.Prefix) != "." && path.Dir(r.Prefix)+"/"+rest != name {
				t.Fatalf("Route(%q): rest %q of file %q", name, rest, r.Prefix)
			}
		case r.Prefix+"/"+rest != name:
			t.Fatalf("Route(%q): rest %q of prefix %q", name, rest, r.Prefix)
		}
		if r.Segment != "" && name == r.Prefix && !tab.Holds(name) {
			t.Fatalf("Holds(%q): false at the prefix of a route", name)
		}
	})
}
