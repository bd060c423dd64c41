package router

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// rootSegment holds the single files, the only segment of several routes.
const rootSegment Segment = "root"

// builtins are the routes every workspace has. Their scope is the workspace's.
var builtins = []Route{
	{Prefix: "AGENTS.md", File: true, Segment: rootSegment},
	{Prefix: "MEMORY.md", File: true, Segment: rootSegment},
	{Prefix: "tools.json", File: true, Segment: rootSegment},
	{Prefix: "memory", Segment: "memory"},
	{Prefix: "skills", Segment: "skills"},
	{Prefix: "subagents", Segment: "subagents"},
	{Prefix: "knowledge", Segment: "knowledge"},
	{Prefix: "plans", Segment: "plans"},
	{Prefix: "agents/" + AgentWord + "/sessions", Segment: "sessions"},
	{Prefix: "agents/" + AgentWord + "/tasks", Segment: "tasks"},
}

// A routeSet collects the routes of Rules, and who asked for each.
type routeSet struct {
	routes  map[string]Route  // by prefix
	sources map[string]string // the rule, as errors call it, by prefix
}

// routes returns all routes that r asks for, ascending by prefix.
func (r Rules) routes() ([]Route, error) {
	if r.Scope == "" {
		r.Scope = DefaultScope
	}
	if _, err := ParseScope(string(r.Scope)); err != nil {
		return nil, err
	}
	set := routeSet{routes: make(map[string]Route), sources: make(map[string]string)}
	for _, b := range builtins {
		b.Prefix, b.Scope = forAgent(b.Prefix, r.Agent), r.Scope
		set.add(b, fmt.Sprintf("built-in route %q", b.rule()))
	}
	for _, p := range r.NoRoute {
		if err := set.drop(p, r.Agent); err != nil {
			return nil, err
		}
	}
	if err := set.addUsers(r); err != nil {
		return nil, err
	}
	if err := set.checkFiles(); err != nil {
		return nil, err
	}
	routes := make([]Route, 0, len(set.routes))
	for _, route := range set.routes {
		routes = append(routes, route)
	}
	slices.SortFunc(routes, byPrefix)
	return routes, nil
}

// rule returns the path of r as users write it.
func (r Route) rule() string { return Rule{Prefix: r.Prefix, File: r.File}.String() }

func (s routeSet) add(r Route, source string) {
	s.routes[r.Prefix], s.sources[r.Prefix] = r, source
}

// drop takes out the built-in route of the path p.
func (s routeSet) drop(p, agent string) error {
	prefix, err := cleanRule(forAgent(p, agent))
	if err != nil {
		return fmt.Errorf("no-route %q: %v", p, err)
	}
	if _, ok := s.routes[prefix]; !ok {
		return fmt.Errorf("no-route %q: there is no built-in route of that path", p)
	}
	delete(s.routes, prefix)
	delete(s.sources, prefix)
	return nil
}

// addUsers adds the user's routes of r.
func (s routeSet) addUsers(r Rules) error {
	users := make(map[string]bool) // prefixes that a rule of the user's names
	for _, rule := range r.Routes {
		source := fmt.Sprintf("route %q", rule)
		route, err := r.route(rule)
		if err != nil {
			return fmt.Errorf("%s: %v", source, err)
		}
		old, taken := s.routes[route.Prefix]
		switch {
		case users[route.Prefix]:
			return fmt.Errorf("%s and %s name the same path", s.sources[route.Prefix], source)
		case taken && old.File != route.File:
			return fmt.Errorf("%s and %s: one path cannot be a file and a directory", s.sources[route.Prefix], source)
		}
		users[route.Prefix] = true
		s.add(route, source)
	}
	return nil
}

// route returns the route that rule asks for.
func (r Rules) route(rule Rule) (Route, error) {
	prefix, err := cleanRule(forAgent(rule.Prefix, r.Agent))
	if err != nil {
		return Route{}, err
	}
	scope := cmp.Or(rule.Scope, r.Scope)
	if _, err := ParseScope(string(scope)); err != nil {
		return Route{}, err
	}
	segment := segmentOf(prefix, rule.File, r.Agent)
	if segment == rootSegment && scope != r.Scope {
		segment += Segment(scopeMark + string(scope))
	}
	return Route{Prefix: prefix, File: rule.File, Segment: segment, Scope: scope}, nil
}

// segmentOf returns the segment of a user's route: that of the built-in route
// it repeats, else one of its own.
func segmentOf(prefix string, file bool, agent string) Segment {
	name, reserved := Segment(Encode(prefix)), false
	for _, b := range builtins {
		if forAgent(b.Prefix, agent) == prefix && b.File == file {
			return b.Segment
		}
		reserved = reserved || b.Segment == name
	}
	if reserved {
		return Segment(fmt.Sprintf("%%%02X", prefix[0])) + name[1:]
	}
	return name
}

// checkFiles refuses routes that lie below the route of a file.
func (s routeSet) checkFiles() error {
	for _, prefix := range slices.Sorted(maps.Keys(s.routes)) {
		for i := range len(prefix) {
			if prefix[i] != '/' {
				continue
			}
			if above, ok := s.routes[prefix[:i]]; ok && above.File {
				return fmt.Errorf("%s lies below %s, which is a file", s.sources[prefix], s.sources[prefix[:i]])
			}
		}
	}
	return nil
}
