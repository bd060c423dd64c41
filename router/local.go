package router

import (
	"fmt"
	"path"
	"strings"
)

// maxElements is how many components a local pattern may have: its states are
// the bits of a word.
const maxElements = 63

// A pattern is a compiled local pattern: a nondeterministic automaton whose
// state i waits for element i. State len(elements) is the end; what is reached
// there matches, and all below it.
type pattern struct {
	elements []element
}

// An element matches one component, or any number of them.
type element struct {
	text string // of literals and globs
	kind elementKind
}

type elementKind uint8

const (
	literal elementKind = iota
	glob
	one  // any component
	many // any number of components, also none
)

// matches reports whether a component that is c can stand for e.
func (e element) matches(c string) bool {
	switch e.kind {
	case literal:
		return c == e.text
	case glob:
		ok, err := path.Match(e.text, c)
		return ok && err == nil // compilePattern has checked the syntax
	}
	return true
}

// compilePattern returns the pattern that text describes.
func compilePattern(text, agent string) (pattern, error) {
	clean, err := cleanRule(text)
	if err != nil {
		return pattern{}, fmt.Errorf("local pattern %q: %v", text, err)
	}
	var p pattern
	for c := range strings.SplitSeq(forAgent(clean, agent), "/") {
		e := element{text: c, kind: kindOf(c)}
		if _, err := path.Match(c, ""); err != nil {
			return pattern{}, fmt.Errorf("local pattern %q: %v", text, err)
		}
		if n := len(p.elements); e.kind == many && n > 0 && p.elements[n-1].kind == many {
			continue
		}
		p.elements = append(p.elements, e)
	}
	if last := len(p.elements) - 1; p.elements[last].kind == many {
		p.elements[last].kind = one
	}
	if len(p.elements) > maxElements {
		return pattern{}, fmt.Errorf("local pattern %q: more than %d components", text, maxElements)
	}
	return p, nil
}

func kindOf(component string) elementKind {
	switch {
	case component == "**":
		return many
	case strings.ContainsAny(component, `*?[\`):
		return glob
	}
	return literal
}

// A states is a set of states of a pattern, one bit each.
type states uint64

// start returns the states before the first component.
func (p pattern) start() states { return p.closure(1) }

// step returns the states after the component c. The answer is empty if
// neither the name so far nor any below it can match.
func (p pattern) step(s states, c string) states {
	var next states
	for i, e := range p.elements {
		if s&(1<<i) == 0 || !e.matches(c) {
			continue
		}
		if e.kind == many {
			next |= 1 << i
		} else {
			next |= 1 << (i + 1)
		}
	}
	return p.closure(next)
}

// closure adds the states that s is in without another component.
func (p pattern) closure(s states) states {
	for i, e := range p.elements {
		if s&(1<<i) != 0 && e.kind == many {
			s |= 1 << (i + 1)
		}
	}
	return s
}

// match reports whether p covers name, and, if not, whether it may cover names
// below it.
func (p pattern) match(name string) (covers, below bool) {
	s, end := p.start(), states(1)<<len(p.elements)
	if name == "." {
		return false, s != 0
	}
	for c := range strings.SplitSeq(name, "/") {
		s = p.step(s, c)
		if s&end != 0 {
			return true, true
		}
		if s == 0 {
			return false, false
		}
	}
	return false, true
}
