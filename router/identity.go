package router

import (
	"errors"
	"strings"
)

// An Identity says for whom a workspace is. Ids are any bytes.
type Identity struct {
	Agent   string
	User    string // may be missing
	Session string // may be missing
	// Workspace is the id wsfs gave the workspace. It is never shared.
	Workspace string
}

// Missing reports whether id names nobody: it is empty or all white space.
func Missing(id string) bool { return strings.TrimSpace(id) == "" }

// Check returns an error unless id has what every workspace must have: an
// agent and a workspace id.
func (id Identity) Check() error {
	switch {
	case Missing(id.Agent):
		return errors.New("router: the identity has no agent")
	case Missing(id.Workspace):
		return errors.New("router: the identity has no workspace")
	}
	return nil
}

// A Fall tells that files have a narrower scope than was asked for.
type Fall struct {
	From, To Scope
	Missing  string // the id that was missing: agent, user or session
}

// String returns f in words.
func (f Fall) String() string {
	return "no " + f.Missing + " id: scope " + string(f.From) + " falls to " + string(f.To)
}

// Resolve returns the namespace of scope for id, and the falls that led there
// in order. anonymousUser, unless missing, stands for a missing user. The zero
// Scope is DefaultScope; a scope without a name of its own is Private.
//
// The namespace is empty if it would be private and id has no workspace: there
// is no place then that nobody else has. Check excludes that.
func Resolve(id Identity, scope Scope, anonymousUser string) (namespace string, falls []Fall) {
	fall := func(to Scope, missing string) {
		falls = append(falls, Fall{From: scope, To: to, Missing: missing})
		scope = to
	}
	if scope == "" {
		scope = DefaultScope
	}
	user := id.User
	if Missing(user) {
		user = anonymousUser
	}
	if Missing(id.Agent) && scope != Global && scope != Private {
		fall(Private, "agent")
	}
	if scope == User && Missing(user) {
		fall(Session, "user")
	}
	if scope == Session && Missing(id.Session) {
		fall(Private, "session")
	}
	return namespaceOf(id, user, scope), falls
}

// namespaceOf returns the namespace of a scope whose ids are all there.
func namespaceOf(id Identity, user string, scope Scope) string {
	agent := "agents/" + Encode(id.Agent)
	switch scope {
	case Session:
		return agent + "/sessions/" + Encode(id.Session)
	case User:
		return agent + "/users/" + Encode(user)
	case Agent:
		return agent + "/shared"
	case Global:
		return "global"
	}
	if Missing(id.Workspace) {
		return ""
	}
	return "workspaces/" + Encode(id.Workspace)
}
