package router_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/router"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	full := router.Identity{Agent: "a", User: "u", Session: "s", Workspace: "w"}
	without := func(ids string) router.Identity {
		id := full
		for _, s := range strings.Fields(ids) {
			switch s {
			case "agent":
				id.Agent = ""
			case "user":
				id.User = " "
			case "session":
				id.Session = "\t"
			case "workspace":
				id.Workspace = ""
			}
		}
		return id
	}
	for _, c := range []struct {
		without   string
		scope     router.Scope
		anonymous string
		namespace string
		falls     []router.Fall
	}{
		{"", router.Session, "", "agents/a/sessions/s", nil},
		{"", router.User, "", "agents/a/users/u", nil},
		{"", "", "", "agents/a/users/u", nil},
		{"", router.Agent, "", "agents/a/shared", nil},
		{"", router.Global, "", "global", nil},
		{"user session", router.Agent, "", "agents/a/shared", nil},
		{"agent user session", router.Global, "", "global", nil},
		{"user", router.User, "", "agents/a/sessions/s", []router.Fall{{router.User, router.Session, "user"}}},
		{"user", router.User, "guest", "agents/a/users/guest", nil},
		{"user", router.User, " ", "agents/a/sessions/s", []router.Fall{{router.User, router.Session, "user"}}},
		{"", router.User, "guest", "agents/a/users/u", nil},
		{"user session", router.User, "", "workspaces/w", []router.Fall{{router.User, router.Session, "user"}, {router.Session, router.Private, "session"}}},
		{"session", router.Session, "guest", "workspaces/w", []router.Fall{{router.Session, router.Private, "session"}}},
		{"agent", router.Agent, "", "workspaces/w", []router.Fall{{router.Agent, router.Private, "agent"}}},
		{"", router.Private, "", "workspaces/w", nil},
		{"", "team", "", "workspaces/w", nil},
		{"session workspace", router.Session, "", "", []router.Fall{{router.Session, router.Private, "session"}}},
	} {
		ns, falls := router.Resolve(without(c.without), c.scope, c.anonymous)
		if ns != c.namespace || !slices.Equal(falls, c.falls) {
			t.Errorf("Resolve without %q, scope %q, anonymous %q: got %q %v, want %q %v", c.without, c.scope, c.anonymous, ns, falls, c.namespace, c.falls)
		}
	}
	if err := full.Check(); err != nil {
		t.Errorf("Check(%v): got %v, want none", full, err)
	}
	for _, s := range []string{"agent", "workspace"} {
		if without(s).Check() == nil {
			t.Errorf("Check without %s: got no error", s)
		}
	}
}

// TestNamespacesAreInjective is fault 30, with the ids that identities of
// tenants can have: equal places only where the scope says they are shared.
func TestNamespacesAreInjective(t *testing.T) {
	t.Parallel()
	scopes := rapid.SampledFrom([]router.Scope{router.Session, router.User, router.Agent, router.Global})
	segments := rapid.SampledFrom([]router.Segment{"root", "root=agent", "memory", "sessions", "m", "memory%2Fprivate"})
	identity := rapid.Custom(func(t *rapid.T) router.Identity {
		return router.Identity{
			Agent: ids().Draw(t, "agent"), User: ids().Draw(t, "user"),
			Session: ids().Draw(t, "session"), Workspace: "w" + ids().Draw(t, "workspace"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := identity.Draw(t, "a"), identity.Draw(t, "b")
		sa, sb := scopes.Draw(t, "scope a"), scopes.Draw(t, "scope b")
		na, fa := router.Resolve(a, sa, "")
		nb, fb := router.Resolve(b, sb, "")
		if want := owner(a, sa, fa) == owner(b, sb, fb); (na == nb) != want {
			t.Fatalf("Resolve(%q, %s) = %q, Resolve(%q, %s) = %q: equal is %v, want %v", a, sa, na, b, sb, nb, na == nb, want)
		}
		ka, kb := segments.Draw(t, "segment a").In(na)+"/", segments.Draw(t, "segment b").In(nb)+"/"
		if ka != kb && (strings.HasPrefix(ka, kb) || strings.HasPrefix(kb, ka)) {
			t.Fatalf("places %q and %q: one is the beginning of the other", ka, kb)
		}
	})
}

// owner is whose files a scope, after its falls, holds: the ids that count.
func owner(id router.Identity, scope router.Scope, falls []router.Fall) [4]string {
	if len(falls) > 0 {
		scope = falls[len(falls)-1].To
	}
	switch scope {
	case router.Session:
		return [4]string{string(scope), id.Agent, id.Session}
	case router.User:
		return [4]string{string(scope), id.Agent, id.User}
	case router.Agent:
		return [4]string{string(scope), id.Agent}
	case router.Global:
		return [4]string{string(scope)}
	}
	return [4]string{string(scope), "", "", id.Workspace}
}

func TestParseScope(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"session", "user", "agent", "global"} {
		if got, err := router.ParseScope(s); err != nil || string(got) != s {
			t.Errorf("ParseScope(%q): got %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "private", "User", "team", "user "} {
		if got, err := router.ParseScope(s); err == nil {
			t.Errorf("ParseScope(%q): got %q, want an error", s, got)
		}
	}
	for s, want := range map[router.Scope]bool{router.Session: false, router.User: false, router.Agent: true, router.Global: true} {
		if s.WiderThanUser() != want {
			t.Errorf("WiderThanUser of %s: got %v, want %v", s, !want, want)
		}
	}
}
