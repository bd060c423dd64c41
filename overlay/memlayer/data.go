package memlayer

import "maps"

// pageSize is the unit in which data takes space, in bytes.
const pageSize = 4096

// A data is the content of a file: pages that were written, and holes.
type data struct {
	size    int64
	pages   map[int64]*[pageSize]byte // by number; none lies behind size
	version int                       // counts changes
}

// readAt copies the bytes from off to p, and returns how many there were.
func (d *data) readAt(p []byte, off int64) int {
	if off >= d.size {
		return 0
	}
	p = p[:min(int64(len(p)), d.size-off)]
	for n := 0; n < len(p); {
		at := off + int64(n)
		step := min(len(p)-n, int(pageSize-at%pageSize))
		if page := d.pages[at/pageSize]; page != nil {
			copy(p[n:n+step], page[at%pageSize:])
		} else {
			clear(p[n : n+step])
		}
		n += step
	}
	return len(p)
}

// writeAt puts p at off. It asks grow before each new page and stops at the
// first that it is refused; it returns how many bytes were written.
func (d *data) writeAt(p []byte, off int64, grow func() bool) int {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		page := d.pages[at/pageSize]
		if page == nil {
			if !grow() {
				break
			}
			if d.pages == nil {
				d.pages = make(map[int64]*[pageSize]byte)
			}
			page = new([pageSize]byte)
			d.pages[at/pageSize] = page
		}
		n += copy(page[at%pageSize:], p[n:])
	}
	if n > 0 {
		d.size = max(d.size, off+int64(n))
		d.version++
	}
	return n
}

// truncate sets the size, and returns how many pages went.
func (d *data) truncate(size int64) int {
	had := len(d.pages)
	if size < d.size {
		d.punch(size, d.size-size)
		maps.DeleteFunc(d.pages, func(i int64, _ *[pageSize]byte) bool { return i*pageSize >= size })
	}
	d.size = size
	d.version++
	return had - len(d.pages)
}

// punch makes the bytes [off, off+n) a hole, and returns how many pages went.
func (d *data) punch(off, n int64) int {
	end := off + n
	had := len(d.pages)
	for i, page := range d.pages {
		from, to := max(off-i*pageSize, 0), min(end-i*pageSize, pageSize)
		switch {
		case from >= to:
		case from == 0 && to == pageSize:
			delete(d.pages, i)
		default:
			clear(page[from:to])
		}
	}
	d.version++
	return had - len(d.pages)
}

// seek returns the first offset from off on that is data (hole: a hole; the
// end is one), and false if there is none.
func (d *data) seek(off int64, hole bool) (int64, bool) {
	if off < 0 || off >= d.size {
		return 0, false
	}
	for ; off < d.size; off = (off/pageSize + 1) * pageSize {
		if (d.pages[off/pageSize] == nil) == hole {
			return off, true
		}
	}
	return d.size, hole
}
