package router

import "fmt"

// A Scope says who shares the files of a route.
type Scope string

// The scopes, from the narrowest to the widest. The zero Scope in a rule means
// the workspace's.
const (
	// Private files are of one workspace and go with it. It is not chosen:
	// other scopes fall to it when an id is missing.
	Private Scope = "private"
	Session Scope = "session"
	User    Scope = "user"
	Agent   Scope = "agent"
	Global  Scope = "global"
)

// DefaultScope is a workspace's scope if none is chosen.
const DefaultScope = User

// ParseScope returns the scope called s: session, user, agent or global.
func ParseScope(s string) (Scope, error) {
	switch scope := Scope(s); scope {
	case Session, User, Agent, Global:
		return scope, nil
	}
	return "", fmt.Errorf("unknown scope %q: want session, user, agent or global", s)
}

// WiderThanUser reports whether users share the files of s. A user's override
// of a template is then read before the store, not after it.
func (s Scope) WiderThanUser() bool { return s == Agent || s == Global }
