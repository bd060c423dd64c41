package overlay

import (
	"testing"
)

// TestNumbers checks that numbers of several devices do not meet, are never 0
// and do not depend on what is put on top.
func TestNumbers(t *testing.T) {
	t.Parallel()
	n := newNumbers()
	n.add(7, 8)
	seen := make(map[uint64][2]uint64)
	for _, dev := range []uint64{7, 8, 9, 10, 1 << 40} {
		for _, ino := range []uint64{0, 1, 2, inoMask - 1, inoMask, inoMask + 1, 1 << 63, ^uint64(0)} {
			got := n.show(dev, ino, 0)
			if got == 0 {
				t.Errorf("show(%d, %#x) is 0", dev, ino)
			}
			if other, taken := seen[got]; taken {
				t.Errorf("show(%d, %#x) is %#x, as of %#x", dev, ino, got, other)
			}
			seen[got] = [2]uint64{dev, ino}
			if again := n.show(dev, ino, 0); again != got {
				t.Errorf("show(%d, %#x) is %#x, then %#x", dev, ino, got, again)
			}
		}
	}
	if got := n.show(7, 123, 0); got != 123 {
		t.Errorf("show of the first device: got %#x, want 123 as it is", got)
	}
	if got := n.show(8, 123, 55); got != 55 {
		t.Errorf("show with an origin: got %#x, want 55", got)
	}
	taller := newNumbers()
	taller.add(7, 8, 11)
	if taller.show(8, 123, 0) != n.show(8, 123, 0) {
		t.Errorf("another device on top changes a number")
	}
}

// TestNumbersManyDevices checks that devices found late have numbers of their
// own as long as there are indexes.
func TestNumbersManyDevices(t *testing.T) {
	t.Parallel()
	n := newNumbers()
	seen := make(map[uint64]bool)
	for dev := range uint64(hashed - firstLate) {
		seen[n.show(dev<<20, 5, 0)] = true
	}
	if len(seen) != hashed-firstLate {
		t.Errorf("%d devices have %d numbers", hashed-firstLate, len(seen))
	}
}
