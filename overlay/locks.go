package overlay

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// A guard is a lock whose holders can be noticed by those who do not take it:
// gen is odd while it is held exclusively, and another number afterwards.
type guard struct {
	mu  sync.RWMutex
	gen atomic.Uint64
}

// A zone has the locks of one segment, or of several that share them.
type zone struct {
	// moves is held exclusively while a directory changes its name, and
	// shared by every other change.
	moves guard
	// dirs are the locks of directories, by a hash of the name: whoever
	// changes an entry holds that of its directory, whoever removes a
	// directory also that of the directory itself.
	dirs [256]guard
}

// locks are the locks of an Overlay. Segments have their own, so that a slow
// store holds up nothing outside it.
type locks struct {
	zones [16]zone
	seed  maphash.Seed // immutable
}

// at returns the indexes of the locks of the directory dir in segment.
func (l *locks) at(segment int, dir Name) (z, d int) {
	return segment % len(l.zones), int(maphash.String(l.seed, string(dir)) % uint64(len(l.zones[0].dirs)))
}

// A version is what the locks of a directory were like at a moment.
type version struct {
	taken      bool // it is one
	z, d       int
	moves, dir uint64
}

// version returns the version of dir in segment. It is one that has changed
// already if someone is changing it.
func (l *locks) version(segment int, dir Name) version {
	v := version{taken: true}
	v.z, v.d = l.at(segment, dir)
	v.moves, v.dir = l.zones[v.z].moves.gen.Load(), l.zones[v.z].dirs[v.d].gen.Load()
	return v
}

// unchanged reports whether nobody changed the directory since v was taken,
// nor was changing it then.
func (l *locks) unchanged(v version) bool {
	z := &l.zones[v.z]
	return (v.moves|v.dir)&1 == 0 && v.moves == z.moves.gen.Load() && v.dir == z.dirs[v.d].gen.Load()
}

// onlyMine is unchanged for who holds the directory's lock exclusively: nobody
// else held it since v was taken.
func (l *locks) onlyMine(v version) bool {
	z := &l.zones[v.z]
	return v.taken && (v.moves|v.dir)&1 == 0 && v.moves == z.moves.gen.Load() && v.dir+1 == z.dirs[v.d].gen.Load()
}

// share locks dir in segment against changes.
func (l *locks) share(segment int, dir Name) (unlock func()) {
	z, d := l.at(segment, dir)
	moves, guard := &l.zones[z].moves.mu, &l.zones[z].dirs[d].mu
	moves.RLock()
	guard.RLock()
	return func() {
		guard.RUnlock()
		moves.RUnlock()
	}
}

// stay locks the directories of segment against moves alone.
func (l *locks) stay(segment int) (unlock func()) {
	moves := &l.zones[segment%len(l.zones)].moves.mu
	moves.RLock()
	return moves.RUnlock
}

// A dirLock names the locks of one directory.
type dirLock struct {
	segment int
	dir     Name
}

// change locks directories for changes of their entries; move: for one that
// gives a directory another name.
func (l *locks) change(move bool, dirs ...dirLock) (unlock func()) {
	type index struct{ z, d int }
	at := make([]index, 0, 4)
	for _, dl := range dirs {
		z, d := l.at(dl.segment, dl.dir)
		at = append(at, index{z, d})
	}
	slices.SortFunc(at, func(a, b index) int {
		return cmp.Or(cmp.Compare(a.z, b.z), cmp.Compare(a.d, b.d))
	})
	at = slices.Compact(at)
	for i, a := range at {
		if i == 0 || at[i-1].z != a.z {
			l.zones[a.z].moves.enter(move)
		}
	}
	for _, a := range at {
		l.zones[a.z].dirs[a.d].enter(true)
	}
	return func() {
		for _, a := range at {
			l.zones[a.z].dirs[a.d].leave(true)
		}
		for i, a := range at {
			if i == 0 || at[i-1].z != a.z {
				l.zones[a.z].moves.leave(move)
			}
		}
	}
}

// enter takes g, exclusively or shared.
func (g *guard) enter(exclusive bool) {
	if !exclusive {
		g.mu.RLock()
		return
	}
	g.mu.Lock()
	g.gen.Add(1)
}

// leave gives up what enter took.
func (g *guard) leave(exclusive bool) {
	if !exclusive {
		g.mu.RUnlock()
		return
	}
	g.gen.Add(1)
	g.mu.Unlock()
}
