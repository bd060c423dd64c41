package overlay

import (
	"maps"
	"sync"
	"sync/atomic"
)

// numbers makes the inode numbers of several devices one space. Devices have
// an index: a number has the index in its top byte and the inode number below
// it, so that those of index 0 are shown as they are.
type numbers struct {
	mu    sync.Mutex                        // held to change index
	index atomic.Pointer[map[uint64]uint64] // by Attr.Dev; the map is never changed
}

// Indexes of devices.
const (
	firstLate = 0x80 // from here on: devices that were not known at the start
	hashed    = 0xff // numbers that are a hash: of large inode numbers

	inoBits = 56
	inoMask = 1<<inoBits - 1
)

// newNumbers returns numbers that know no device.
func newNumbers() *numbers {
	n := &numbers{}
	n.index.Store(&map[uint64]uint64{})
	return n
}

// add gives devices that are new the next indexes.
func (n *numbers) add(devs ...uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	index := maps.Clone(*n.index.Load())
	for _, dev := range devs {
		if _, known := index[dev]; !known {
			index[dev] = min(uint64(len(index)), firstLate-1)
		}
	}
	n.index.Store(&index)
}

// of returns the index of dev. A device found late gets one that follows from
// its number, so that it is likely to get the same the next time.
func (n *numbers) of(dev uint64) uint64 {
	if i, known := (*n.index.Load())[dev]; known {
		return i
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	index := maps.Clone(*n.index.Load())
	if i, known := index[dev]; known {
		return i
	}
	const places = hashed - firstLate
	taken := make(map[uint64]bool)
	for _, i := range index {
		taken[i] = true
	}
	i := firstLate + mix(dev)%places
	for range places {
		if !taken[i] {
			break
		}
		i = firstLate + (i+1-firstLate)%places
	}
	index[dev] = i
	n.index.Store(&index)
	return i
}

// show returns the number of the file ino of dev; origin, unless 0, is it.
func (n *numbers) show(dev, ino, origin uint64) uint64 {
	if origin != 0 {
		return origin
	}
	i := n.of(dev)
	if ino == 0 || ino > inoMask {
		return n.hash(ino, i)
	}
	return i<<inoBits | ino
}

// hash returns a number that stands for ino and what.
func (n *numbers) hash(ino, what uint64) uint64 {
	return hashed<<inoBits | mix(mix(ino)+what)&inoMask
}

// mix is a hash of x that is the same on every machine (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
