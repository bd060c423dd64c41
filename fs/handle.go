//go:build linux

package fs

import (
	"slices"
	"sync"
)

// A handle is what an OPEN gave the kernel.
type handle struct {
	n     *node // immutable
	write bool  // immutable
	maps  bool  // immutable: O_RDWR, which a mapping that is written to needs
	own   *file // immutable: the handle's own file, nil if it uses the node's
}

// handles are the open handles by number. Numbers are used again.
type handles struct {
	mu    sync.RWMutex
	slots []*handle
	free  []uint64
}

// add returns the number of h.
func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.free) - 1; last >= 0 {
		i := t.free[last]
		t.free = t.free[:last]
		t.slots[i] = h
		return i
	}
	t.slots = append(t.slots, h)
	return uint64(len(t.slots) - 1)
}

// get returns the handle with number i, nil if there is none.
func (t *handles) get(i uint64) *handle {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i >= uint64(len(t.slots)) {
		return nil
	}
	return t.slots[i]
}

// take removes and returns the handle with number i, nil if there is none.
func (t *handles) take(i uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i >= uint64(len(t.slots)) || t.slots[i] == nil {
		return nil
	}
	h := t.slots[i]
	t.slots[i] = nil
	t.free = append(t.free, i)
	return h
}

// takeAll removes and returns all handles.
func (t *handles) takeAll() []*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(t.slots), func(h *handle) bool { return h == nil })
	t.slots, t.free = nil, nil
	return all
}
