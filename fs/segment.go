//go:build linux

package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// maxSegments is the number of segment locks. A layer with more segments has
// some share a lock, which is slower but not wrong.
const maxSegments = 64

// segments are the locks that keep names and files together: held shared by
// whoever uses a name, exclusively by whoever gives a name another file.
// Several are taken in ascending order.
type segments struct {
	locks [maxSegments]sync.RWMutex
}

// segment returns the lock of the segment that name belongs to.
func (f *FS) segment(name overlay.Name) uint8 {
	if f.can.segment == nil {
		return 0
	}
	return uint8(uint(f.can.segment.Segment(name)) % maxSegments)
}

// held is a set of segment locks, ascending: at most those of two names and
// their directories.
type held struct {
	f         *FS
	count     uint8
	seg       [4]uint8
	exclusive [4]bool
	locked    bool
}

// add puts seg into the set; exclusive wins over shared.
func (h *held) add(seg uint8, exclusive bool) {
	i := uint8(0)
	for i < h.count && h.seg[i] < seg {
		i++
	}
	if i < h.count && h.seg[i] == seg {
		h.exclusive[i] = h.exclusive[i] || exclusive
		return
	}
	copy(h.seg[i+1:], h.seg[i:h.count])
	copy(h.exclusive[i+1:], h.exclusive[i:h.count])
	h.seg[i], h.exclusive[i] = seg, exclusive
	h.count++
}

// lock takes the locks of the set.
func (h *held) lock() {
	for i := range h.count {
		if l := &h.f.segs.locks[h.seg[i]]; h.exclusive[i] {
			l.Lock()
		} else {
			l.RLock()
		}
	}
	h.locked = true
}

// unlock lets go of the locks, if they are held.
func (h *held) unlock() {
	if !h.locked {
		return
	}
	for i := range h.count {
		if l := &h.f.segs.locks[h.seg[i]]; h.exclusive[i] {
			l.Unlock()
		} else {
			l.RUnlock()
		}
	}
	h.locked = false
}

// byNode derives the path of n and holds its segment shared. The caller
// unlocks. ESTALE if n has no name that is its own, ENOENT if it was removed.
func (f *FS) byNode(n *node) (path overlay.Name, h held, st fuse.Status) {
	h.f = f
	h.add(n.seg, false)
	h.lock()
	path, state := f.table.path(n)
	if state != linked {
		h.unlock()
		return "", h, gone(state)
	}
	return path, h, fuse.OK
}

// hold holds the segment of n shared and returns n's state. The caller unlocks.
func (f *FS) hold(n *node) (h held, state nodeState) {
	h.f = f
	h.add(n.seg, false)
	h.lock()
	f.table.mu.RLock()
	defer f.table.mu.RUnlock()
	return h, n.state
}

// gone returns the answer to a call by the path of a node in that state.
func gone(s nodeState) fuse.Status {
	if s == stale {
		return estale
	}
	return fuse.ENOENT
}

// byName derives the path of name in d and holds what keeps it right: the
// segments of d, shared, and of the name itself, shared or exclusively. seg is
// the latter. The caller unlocks.
func (f *FS) byName(d *node, name string, exclusive bool) (path overlay.Name, seg uint8, h held, st fuse.Status) {
	h.f = f
	if st := checkName(d, name); !st.Ok() {
		return "", 0, h, st
	}
	for {
		dir, state := f.table.path(d)
		if state != linked {
			return "", 0, h, gone(state)
		}
		path = dir.Join(name)
		seg = f.segment(path)
		h.add(d.seg, false)
		h.add(seg, exclusive)
		h.lock()
		if again, state := f.table.path(d); state == linked && again == dir {
			return path, seg, h, fuse.OK
		}
		h.unlock()
		h = held{f: f}
	}
}

// checkName returns why name cannot be one in d, if so.
func checkName(d *node, name string) fuse.Status {
	switch {
	case d.dir == nil:
		return fuse.ENOTDIR
	case len(name) > overlay.MaxComponent:
		return enametoolong
	case name == "" || name == "." || name == "..":
		return fuse.EINVAL
	}
	return fuse.OK
}
