package overlay

import (
	"context"
	"sync/atomic"
)

// What is known of a directory's frozen parts is worth its price when there are
// many of them, it is asked for often, and the names are not too many.
const (
	minFrozen = 4
	minAsked  = 16
	maxNames  = 1 << 13
)

// frozenNames know in which of a directory's frozen parts a name is, or is
// recorded as gone, so that a lookup need not ask all of them: a root spans
// every layer there is. Frozen parts are those of lowers that only this mount
// changes, which is to say never. The zero value knows nothing yet.
type frozenNames struct {
	asked atomic.Int32
	state atomic.Pointer[frozenIndex]
}

// A frozenIndex is what was learned of the parts [from, to). It is immutable.
type frozenIndex struct {
	from, to int
	// parts has, for each name, the first part that says anything of it; nil
	// if the names are too many.
	parts map[string]int
}

// next returns the first part from i on that may hold or hide base. Where the
// frozen parts cannot be read it is i: whoever asks them gets the error.
func (f *frozenNames) next(ctx context.Context, s *stack, parts []part, i int, base string) int {
	if len(parts) < minFrozen {
		return i
	}
	x := f.state.Load()
	if x == nil {
		if f.asked.Add(1) < minAsked {
			return i
		}
		x = s.readFrozen(ctx, parts)
		if x == nil {
			return i
		}
		f.state.Store(x)
	}
	if x.parts == nil || i < x.from || i >= x.to {
		return i
	}
	if p, known := x.parts[base]; !known {
		return x.to
	} else if p > i {
		return p
	}
	return i
}

// readFrozen reads the longest run of frozen parts that begins below the upper.
// It is nil if one of them cannot be read.
func (s *stack) readFrozen(ctx context.Context, parts []part) *frozenIndex {
	x := &frozenIndex{}
	for x.from < len(parts) && !s.frozen(parts[x.from]) {
		x.from++
	}
	for x.to = x.from; x.to < len(parts) && s.frozen(parts[x.to]); x.to++ {
	}
	if x.to-x.from < minFrozen {
		return x
	}
	names := make(map[string]int)
	for i := x.to - 1; i >= x.from; i-- {
		l, dir := &s.layers[parts[i].layer], parts[i].name
		entries, err := l.ReadDir(ctx, dir)
		if err != nil {
			return nil
		}
		var marks []string
		if l.marks != nil {
			if marks, err = l.marks.Marks(ctx, dir); err != nil {
				return nil
			}
		}
		for _, e := range entries {
			names[e.Name] = i
		}
		for _, name := range marks {
			names[name] = i
		}
		if len(names) > maxNames {
			return x
		}
	}
	x.parts = names
	return x
}

// frozen reports whether p never changes.
func (s *stack) frozen(p part) bool {
	return p.source == Exclusive && !(s.upper != nil && p.layer == 0)
}
