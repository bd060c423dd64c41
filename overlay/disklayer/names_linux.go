package disklayer

import (
	"slices"
	"sync"

	"github.com/wsfs/wsfs/overlay"
)

// A nameTable knows the names of every file of the layer that has several, or
// had: a file that is moved to another layer has to take all of them along.
type nameTable struct {
	mu    sync.Mutex
	files map[uint64]map[overlay.Name]bool // by inode number; protected by mu
}

func newNameTable() *nameTable {
	return &nameTable{files: make(map[uint64]map[overlay.Name]bool)}
}

func (t *nameTable) add(ino uint64, name overlay.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files[ino] == nil {
		t.files[ino] = make(map[overlay.Name]bool)
	}
	t.files[ino][name] = true
}

func (t *nameTable) remove(ino uint64, name overlay.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names, ok := t.files[ino]
	if !ok {
		return
	}
	delete(names, name)
	if len(names) == 0 {
		delete(t.files, ino)
	}
}

// moveFile tells that the file ino, which is no directory, got the name to for
// the name from.
func (t *nameTable) moveFile(ino uint64, from, to overlay.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if names := t.files[ino]; names[from] {
		delete(names, from)
		names[to] = true
	}
}

// move tells that the directory from is now at to; with exchange, what was at to
// is at from.
func (t *nameTable) move(from, to overlay.Name, exchange bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ino, names := range t.files {
		moved := make(map[overlay.Name]bool, len(names))
		for n := range names {
			switch {
			case n.Within(from):
				n = to + n[len(from):]
			case exchange && n.Within(to):
				n = from + n[len(to):]
			}
			moved[n] = true
		}
		t.files[ino] = moved
	}
}

// of returns the names of the file ino, ascending; nil if it is not known to
// have several.
func (t *nameTable) of(ino uint64) []overlay.Name {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []overlay.Name
	for n := range t.files[ino] {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// all returns all that is known.
func (t *nameTable) all() map[uint64][]overlay.Name {
	t.mu.Lock()
	inos := make([]uint64, 0, len(t.files))
	for ino := range t.files {
		inos = append(inos, ino)
	}
	t.mu.Unlock()
	all := make(map[uint64][]overlay.Name, len(inos))
	for _, ino := range inos {
		all[ino] = t.of(ino)
	}
	return all
}

// Names returns the names of the file with the inode number ino (Attr.Ino),
// ascending, if it has several or had; nil for all others.
func (u *Upper) Names(ino uint64) []overlay.Name { return u.names.of(ino) }
