package router

import (
	"fmt"
	"path"
	"strings"
)

// AgentWord is the component of a rule that stands for the workspace's agent.
const AgentWord = "<agent>"

// maxComponent is the longest component in bytes that a file can have.
const maxComponent = 255

// A Rule is a user's wish for a route.
type Rule struct {
	// Prefix is the path, relative to the workspace's root.
	Prefix string
	// File: the rule is for the file Prefix, not for a directory.
	File bool
	// Scope is the route's scope; zero means the workspace's.
	Scope Scope
}

// Rules are what a Table is made from.
type Rules struct {
	// Agent is the workspace's agent, whose folders agents/<agent>/... are
	// routed. It must not be missing.
	Agent string
	// Scope is the workspace's scope; zero means DefaultScope.
	Scope Scope
	// Routes are added to the built-in ones.
	Routes []Rule
	// NoRoute names built-in routes to leave out, with or without the final
	// slash.
	NoRoute []string
	// Local are the patterns of names that stay on local disk.
	Local []string
}

// ParseRoute reads a rule as users write it: a path, relative to the
// workspace's root, that ends in a slash if it is a directory's, and then, if
// the rule has its own scope, an equals sign and the scope: "prompts/",
// "NOTES.md", "prompts/=agent". What follows the last equals sign is a scope,
// unless there is a slash in it.
func ParseRoute(s string) (Rule, error) {
	r := Rule{Prefix: s}
	if i := strings.LastIndexByte(s, '='); i >= 0 && !strings.Contains(s[i:], "/") {
		scope, err := ParseScope(s[i+1:])
		if err != nil {
			return Rule{}, fmt.Errorf("route %q: %v", s, err)
		}
		r.Prefix, r.Scope = s[:i], scope
	}
	r.File = !strings.HasSuffix(r.Prefix, "/")
	prefix, err := cleanRule(r.Prefix)
	if err != nil {
		return Rule{}, fmt.Errorf("route %q: %v", s, err)
	}
	r.Prefix = prefix
	return r, nil
}

// String returns r as ParseRoute reads it.
func (r Rule) String() string {
	s := r.Prefix
	if !r.File {
		s += "/"
	}
	if r.Scope != "" {
		s += "=" + string(r.Scope)
	}
	return s
}

// Clean returns the name, relative to the workspace's root, of a path that a
// user or a program wrote, whether it is relative to the root or begins at it
// with a slash: single slashes, no "." or ".." left, "." for the root itself.
// A ".." at the root is the root. Clean knows no symbolic links: where one may
// lie on the way it has to be resolved first.
func Clean(p string) string {
	p = path.Clean("/" + p)
	if p == "/" {
		return "."
	}
	return p[1:]
}

// cleanRule returns the path of a rule, cleaned, or says why it cannot be one.
func cleanRule(p string) (string, error) {
	switch {
	case p == "":
		return "", fmt.Errorf("the path is empty")
	case p[0] == '/':
		return "", fmt.Errorf("the path is not relative to the workspace's root")
	case strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("the path holds a NUL byte")
	}
	for c := range strings.SplitSeq(p, "/") {
		switch {
		case c == "..":
			return "", fmt.Errorf("the path holds a \"..\" component")
		case len(c) > maxComponent:
			return "", fmt.Errorf("a component is longer than %d bytes", maxComponent)
		}
	}
	if p = path.Clean(p); p == "." {
		return "", fmt.Errorf("the path is the workspace's root, which stays on local disk")
	}
	return p, nil
}

// forAgent returns p with the encoded agent in the place of AgentWord.
func forAgent(p, agent string) string {
	if !strings.Contains(p, AgentWord) {
		return p
	}
	components := strings.Split(p, "/")
	for i, c := range components {
		if c == AgentWord {
			components[i] = Encode(agent)
		}
	}
	return strings.Join(components, "/")
}
