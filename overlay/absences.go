package overlay

import (
	"sync"
	"sync/atomic"
)

// absences are the places under watch where a layer that others may change had
// no directory: as long as nothing is told of one, none has appeared there, and
// the layer need not be asked.
type absences struct {
	count   atomic.Int64 // of places; 0 makes has return at once
	mu      sync.RWMutex
	watched map[place]int // watches; guarded by mu
}

// has reports whether p is under watch.
func (a *absences) has(p place) bool {
	if a.count.Load() == 0 {
		return false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.watched[p] > 0
}

// add says that p is under watch until release is called, once or more often.
func (a *absences) add(p place) (release func()) {
	a.change(p, 1)
	return sync.OnceFunc(func() { a.change(p, -1) })
}

func (a *absences) change(p place, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched == nil {
		a.watched = make(map[place]int)
	}
	if a.watched[p] += n; a.watched[p] == 0 {
		delete(a.watched, p)
	}
	a.count.Store(int64(len(a.watched)))
}
