package overlay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/router"
)

// A Mux joins layers sideways: each name is in the layer of the segment that
// the table routes it to. It is an Upper with every ability that its layers
// have; what the layer of a name lacks fails for that name alone.
//
// The directory of a route is the root of its segment's layer, the file of a
// route is in the root of its segment's layer under its base name. Both kinds
// of directories that routes make, those of routes and those on the way to one,
// are always there and are directories, whatever the disk holds; they can be
// neither removed nor renamed (EBUSY).
//
// Nothing is renamed or linked from one segment to another (EXDEV): an Overlay
// over the Mux moves regular files by copying them.
type Mux struct {
	table *router.Table // immutable
	parts []muxPart     // immutable: the disk, and the segments by name
	index map[router.Segment]int
}

// A muxPart is the layer of one segment with its abilities.
type muxPart struct {
	Upper
	segment router.Segment
	marker  Marker // nil if its marks are read apart
	finder  Finder // nil if it tells of whiteouts only with all marks
}

// disk is the index of the part that has all that is not routed.
const disk = 0

// wayDev is the device of the directories on the way to a route.
const wayDev = 1<<63 | 0x77617966

// The abilities of a Mux.
var (
	_ Upper       = (*Mux)(nil)
	_ Linker      = (*Mux)(nil)
	_ XattrSetter = (*Mux)(nil)
	_ Noder       = (*Mux)(nil)
	_ Tmpfiler    = (*Mux)(nil)
	_ Statfser    = (*Mux)(nil)
	_ Watcher     = (*Mux)(nil)
	_ Recoverer   = (*Mux)(nil)
	_ Syncer      = (*Mux)(nil)
	_ Indexer     = (*Mux)(nil)
	_ Redirecter  = (*Mux)(nil)
	_ Checker     = (*Mux)(nil)
	_ Segmenter   = (*Mux)(nil)
	_ Marker      = (*Mux)(nil)
	_ Finder      = (*Mux)(nil)
	_ Pinner      = (*Mux)(nil)
	_ Devicer     = (*Mux)(nil)
	_ Parter      = (*Mux)(nil)
)

// NewMux returns the layers joined as table says. layers has one for
// router.Local, the disk, and one for the segment of each route; others are
// not used.
func NewMux(table *router.Table, layers map[router.Segment]Upper) (*Mux, error) {
	m := &Mux{table: table, index: make(map[router.Segment]int)}
	needed := map[router.Segment]string{router.Local: "."}
	for _, r := range table.Routes() {
		needed[r.Segment] = r.Prefix
	}
	for _, segment := range slices.Sorted(maps.Keys(needed)) {
		u := layers[segment]
		if u == nil {
			return nil, fmt.Errorf("overlay: no layer for segment %q, which has %s", segment, needed[segment])
		}
		marker, _ := As[Marker](any(u))
		finder, _ := As[Finder](any(u))
		m.index[segment] = len(m.parts)
		m.parts = append(m.parts, muxPart{u, segment, marker, finder})
	}
	return m, nil
}

// at returns the part that name is in, and its name there.
func (m *Mux) at(name Name) (part int, inner Name) {
	r, rest := m.table.Route(string(name))
	return m.index[r.Segment], Name(rest)
}

// Part implements Parter.
func (m *Mux) Part(name Name) (Upper, Name) {
	p, inner := m.at(name)
	return m.parts[p].Upper, inner
}

// Segment implements Segmenter: 0 is the disk.
func (m *Mux) Segment(name Name) int {
	p, _ := m.at(name)
	return p
}

// Pinned implements Pinner: the root, the directories of routes and those on
// the way to one.
func (m *Mux) Pinned(name Name) bool {
	if !m.table.Holds(string(name)) {
		return name == Root
	}
	r, _ := m.table.Route(string(name))
	return !r.File || r.Prefix != string(name)
}

// onWay reports whether name, of the disk, is a directory on the way to a
// route.
func (m *Mux) onWay(part int, name Name) bool {
	return part == disk && name != Root && m.table.Holds(string(name))
}

// Devices implements Devicer.
func (m *Mux) Devices() []uint64 {
	var devs []uint64
	for i, p := range m.parts {
		if d, ok := As[Devicer](any(p.Upper)); ok {
			devs = append(devs, d.Devices()...)
		} else if a, err := p.Lstat(context.Background(), Root); err == nil {
			devs = append(devs, a.Dev)
		}
		if i == disk {
			devs = append(devs, wayDev)
		}
	}
	return devs
}

// wayAttr returns what a, the attributes of a directory on the way to a route,
// is shown as: its number does not depend on whether the disk has it.
func wayAttr(a Attr, name Name) Attr {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	a.Dev, a.Ino, a.Origin = wayDev, h&inoMask|1, 0
	return a
}

// madeUp returns the attributes of a directory on the way to a route, where
// the disk has none: those of the root.
func (m *Mux) madeUp(ctx context.Context) (Attr, error) {
	a, err := m.parts[disk].Lstat(ctx, Root)
	a.Nlink, a.Mode = 2, TypeDir|0o755
	return a, err
}

// ensure makes the directory dir on the disk, if the disk is to hold files in
// it and a route made it: then nobody else will.
func (m *Mux) ensure(ctx context.Context, dir Name) error {
	if dir == Root || !m.made(dir) {
		return nil
	}
	d := m.parts[disk]
	switch _, err := d.Lstat(ctx, dir); {
	case err == nil:
		return nil
	case !isErrno(err, syscall.ENOENT):
		return err
	}
	if err := m.ensure(ctx, dir.Dir()); err != nil {
		return err
	}
	a, err := m.Lstat(ctx, dir)
	if err != nil {
		return err
	}
	err = d.Mkdir(ctx, dir, Perm{Mode: a.Mode & ModeMask, UID: a.UID, GID: a.GID})
	if isErrno(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// made reports whether dir may be a directory without the disk holding it.
func (m *Mux) made(dir Name) bool {
	part, _ := m.at(dir)
	return part != disk || m.table.Holds(string(dir))
}

// place returns the part that a new file name goes to and its name there, when
// the part has its directory. Nothing can be put at a pinned name: pinned is
// the error then.
func (m *Mux) place(ctx context.Context, op string, name Name, pinned syscall.Errno) (*muxPart, Name, error) {
	if m.Pinned(name) {
		return nil, "", PathError(op, name, pinned)
	}
	part, inner := m.at(name)
	if part == disk {
		if err := m.ensure(ctx, name.Dir()); err != nil {
			return nil, "", about(op, name, err)
		}
	}
	return &m.parts[part], inner, nil
}

// existing returns the part and the name there of name, which is to be changed.
func (m *Mux) existing(ctx context.Context, op string, name Name) (*muxPart, Name, error) {
	part, inner := m.at(name)
	if m.onWay(part, name) {
		if err := m.ensure(ctx, name); err != nil {
			return nil, "", about(op, name, err)
		}
	}
	return &m.parts[part], inner, nil
}

// outer returns the name of the file inner of a part.
func (m *Mux) outer(part int, inner Name) Name {
	if part == disk {
		return inner
	}
	for _, r := range m.table.Routes() {
		prefix := Name(r.Prefix)
		switch {
		case m.index[r.Segment] != part:
		case !r.File && inner == Root:
			return prefix
		case !r.File:
			return prefix.Join(string(inner))
		case inner.Within(Name(prefix.Base())):
			return prefix + inner[len(prefix.Base()):]
		}
	}
	return inner
}
