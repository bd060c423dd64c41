package router

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Segment is a part of a store's key space. The zero Segment is the local
// disk.
type Segment string

// Local is the segment of everything that no route covers.
const Local Segment = ""

// In returns the place of s in namespace, as a prefix of keys without a final
// slash. Followed by one, no place is the beginning of another. Segments that
// differ in their scope alone have the same place in one namespace: whoever
// opens them must open that place once.
func (s Segment) In(namespace string) string {
	name, scope, ok := strings.Cut(string(s), scopeMark)
	if _, err := ParseScope(scope); !ok || err != nil {
		name = string(s)
	}
	return namespace + "/" + name
}

// scopeMark stands between the name of a built-in segment and the scope of
// those routes that do not have the workspace's. Encode never writes it before
// the name of a scope.
const scopeMark = "="

// A Route says where the files of a prefix are.
type Route struct {
	// Prefix is a cleaned name.
	Prefix string
	// File: the route is for the file Prefix, not for a directory.
	File bool
	// Segment is Local in the zero Route alone.
	Segment Segment
	// Scope is never zero but in the zero Route.
	Scope Scope
}

// String returns r as ParseRoute reads it.
func (r Route) String() string {
	return Rule{Prefix: r.Prefix, File: r.File, Scope: r.Scope}.String()
}

// A Table finds the route of a name. It is immutable, and its methods do not
// allocate. All of them take cleaned names: components joined by single
// slashes, "." for the root; any bytes, any length.
type Table struct {
	routes []Route // ascending by Prefix
	locals []pattern
	root   node
}

// A node is a component of a route's prefix. Every node but the root has a
// route, or leads to one.
type node struct {
	children map[string]*node
	inner    []string // the keys of children, ascending
	route    *Route   // nil if no route ends here
}

// child returns the node of the component c below n, nil if there is none.
func (n *node) child(c string) *node { return n.children[c] }

// New returns the table of r. The error of rules that do not go together
// names both.
func New(r Rules) (*Table, error) {
	if Missing(r.Agent) {
		return nil, errors.New("router: no agent is given")
	}
	routes, err := r.routes()
	if err != nil {
		return nil, fmt.Errorf("router: %v", err)
	}
	t := &Table{}
	for _, text := range r.Local {
		p, err := compilePattern(text, r.Agent)
		if err != nil {
			return nil, fmt.Errorf("router: %v", err)
		}
		t.locals = append(t.locals, p)
	}
	t.routes = slices.DeleteFunc(routes, func(r Route) bool { return t.local(r.Prefix) })
	for i := range t.routes {
		t.root.insert(&t.routes[i])
	}
	t.root.list()
	return t, nil
}

// insert puts r below the root n.
func (n *node) insert(r *Route) {
	for c := range strings.SplitSeq(r.Prefix, "/") {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		if n.children[c] == nil {
			n.children[c] = &node{}
		}
		n = n.children[c]
	}
	n.route = r
}

// list fills inner of n and of all nodes below it.
func (n *node) list() {
	for c, child := range n.children {
		n.inner = append(n.inner, c)
		child.list()
	}
	slices.Sort(n.inner)
}

// Route returns the route of name and the name inside the route's segment.
// Below a directory's route that is what follows the prefix, "." for the
// prefix itself; a file's route has its file, by the last component of the
// prefix, in the root of the segment. A name outside every route has the zero
// Route and is the same inside.
func (t *Table) Route(name string) (r Route, rest string) {
	var found *Route
	at, end := 0, 0           // the last component that was matched
	foundAt, foundEnd := 0, 0 // the last component of found's prefix
	for n := &t.root; end < len(name); at = end + 1 {
		if end = strings.IndexByte(name[at:], '/'); end < 0 {
			end = len(name)
		} else {
			end += at
		}
		if n = n.child(name[at:end]); n == nil {
			break
		}
		if n.route != nil {
			found, foundAt, foundEnd = n.route, at, end
		}
	}
	switch {
	case found == nil, t.local(name):
		return Route{}, name
	case found.File:
		return *found, name[foundAt:]
	case foundEnd == len(name):
		return *found, "."
	}
	return *found, name[foundEnd+1:]
}

// Routes returns the routes in ascending order of their prefixes.
func (t *Table) Routes() []Route { return slices.Clone(t.routes) }

// Inner returns the names, ascending, that routes put directly into the
// directory name: those of routes and those on the way to one. Each is a
// directory that is always there, unless it is a file's route, whose file is
// there if its segment has it. The caller must not change the slice.
func (t *Table) Inner(name string) []string {
	n := t.find(name)
	if n == nil {
		return nil
	}
	return n.inner
}

// Holds reports whether a route lies at name or below it.
func (t *Table) Holds(name string) bool {
	n := t.find(name)
	return n != nil && (n != &t.root || len(t.routes) > 0)
}

// HoldsLocal reports whether names below the directory name, which a route
// covers, may be on local disk, by a local pattern. If not, they are all in
// name's segment or in that of a route below it.
func (t *Table) HoldsLocal(name string) bool {
	for _, p := range t.locals {
		if _, below := p.match(name); below {
			return true
		}
	}
	return false
}

// find returns the node of name, nil if there is none.
func (t *Table) find(name string) *node {
	n := &t.root
	if name == "." {
		return n
	}
	for c := range strings.SplitSeq(name, "/") {
		if n = n.child(c); n == nil {
			return nil
		}
	}
	return n
}

// local reports whether a local pattern covers name.
func (t *Table) local(name string) bool {
	for _, p := range t.locals {
		if covers, _ := p.match(name); covers {
			return true
		}
	}
	return false
}

func byPrefix(a, b Route) int { return cmp.Compare(a.Prefix, b.Prefix) }
