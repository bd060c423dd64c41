package disklayer

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Recover implements overlay.Recoverer. After a clean end it only sweeps the
// work directory; else it looks at every file of the layer.
func (u *Upper) Recover(ctx context.Context, open overlay.Origins) (damaged []overlay.Name, err error) {
	if err := u.sweepWork(); err != nil {
		return nil, fail("recover", overlay.Root, err)
	}
	if u.sound.Load() {
		return nil, nil
	}
	r := &recovery{u: u, ctx: ctx, open: open, seen: make(map[uint64]bool)}
	if err := u.walk(overlay.Root, r.visit); err != nil {
		return nil, fail("recover", overlay.Root, err)
	}
	if err := r.finish(); err != nil {
		return nil, fail("recover", overlay.Root, err)
	}
	u.sound.Store(true)
	return r.damaged, nil
}

// sweepWork removes what earlier processes left in the work directory.
func (u *Upper) sweepWork() error {
	fd, err := openat(u.work, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	entries, err := readEntries(fd, 0)
	unix.Close(fd)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name == whiteName || (strings.HasPrefix(e.Name, workPrefix) && !u.opt.alone) {
			continue
		}
		if err := u.sweepOne(e.Name); err != nil {
			return err
		}
	}
	return nil
}

// sweepOne removes the file name of the work directory. A copy that got no name
// but a link in the index loses that, too.
func (u *Upper) sweepOne(name string) error {
	st, err := lstat(u.work, name)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		u.sweepDir(u.work, name)
		return nil
	}
	o, err := u.marks.origin(u.work, name, st.Ino)
	if err != nil {
		return err
	}
	if o.indexed && st.Nlink == 2 && u.links.has(o.ino) {
		in, err := lstat(u.links.fd, indexEntry(o.ino))
		if err != nil {
			return err
		}
		if in.Ino == st.Ino {
			if err := u.links.drop(u, o.ino); err != nil {
				return err
			}
		}
	}
	return unix.Unlinkat(u.work, name, 0)
}

// A recovery is a walk over a layer after an unclean end.
type recovery struct {
	u       *Upper
	ctx     context.Context
	open    overlay.Origins
	seen    map[uint64]bool // inode numbers met
	damaged []overlay.Name
}

// visit repairs one file.
func (r *recovery) visit(v *visit) error {
	if err := r.ctx.Err(); err != nil {
		return unix.EINTR
	}
	if !r.u.marks.extra.empty() {
		if err := r.dropStaleGone(v); err != nil {
			return err
		}
	}
	if isWhiteout(&v.st) {
		return nil
	}
	if !v.isDir() && v.st.Nlink > 1 {
		r.u.names.add(v.st.Ino, v.name)
	}
	if !v.isRegular() || !r.u.impure(v.dir) {
		return nil
	}
	o, err := r.u.marks.origin(v.dir.fd, v.base, v.st.Ino)
	if err != nil {
		return err
	}
	good, err := r.repair(v.dir.fd, v.base, &v.st, v.name, o)
	if !good && err == nil {
		r.damaged = append(r.damaged, v.name)
	}
	return err
}

// dropStaleGone takes back a recorded whiteout at a name that holds a file.
func (r *recovery) dropStaleGone(v *visit) error {
	r.seen[v.st.Ino] = true
	in, err := fstat(v.dir.fd)
	if err != nil {
		return err
	}
	r.seen[in.Ino] = true
	if !r.u.marks.extra.isGone(in.Ino, v.base) {
		return nil
	}
	return r.u.marks.extra.setGone(in.Ino, v.base, false)
}

// finish repairs what has no name in the layer: copies in the index, and marks
// of files that are gone.
func (r *recovery) finish() error {
	for ino := range r.u.links.known {
		if err := r.checkIndexed(ino); err != nil {
			return err
		}
	}
	if r.u.marks.extra.empty() {
		return nil
	}
	root, err := fstat(r.u.root)
	if err != nil {
		return err
	}
	r.seen[root.Ino] = true
	for _, ino := range r.u.marks.extra.inodes() {
		if r.seen[ino] {
			continue
		}
		if err := r.u.marks.extra.forget(ino); err != nil {
			return err
		}
	}
	return nil
}

// checkIndexed repairs the copy of ino in the index, and drops it if no name of
// it is left.
func (r *recovery) checkIndexed(ino uint64) error {
	entry := indexEntry(ino)
	st, err := lstat(r.u.links.fd, entry)
	if err != nil {
		return err
	}
	r.seen[st.Ino] = true
	o, err := r.u.marks.origin(r.u.links.fd, entry, st.Ino)
	if err != nil {
		return err
	}
	if int64(st.Nlink)+int64(o.links) <= 0 {
		return r.u.links.drop(r.u, ino)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	_, err = r.repair(r.u.links.fd, entry, &st, "", o) // reported under its names
	return err
}

// repair brings the file name, base in the directory at, to what it was copied
// from, if its origin o says that it is a pending copy and data is missing. It reports false, and leaves the
// file and its mark alone, if the origin is not what it was.
func (r *recovery) repair(at int, base string, st *unix.Stat_t, name overlay.Name, o origin) (good bool, err error) {
	if !o.pending {
		return !o.bad, nil
	}
	note := o.copy
	fd, err := openat(at, base, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	short := st.Size < note.size
	holes := false
	if !short {
		if holes, err = hasHole(fd, note.size); err != nil {
			return false, err
		}
	}
	if short || holes {
		filled, err := r.refill(fd, name, note)
		if err != nil {
			return false, err
		}
		if !filled && (short || !note.sparse) {
			return false, nil
		}
		if err := setTimes(fd, "", &[2]unix.Timespec{st.Atim, st.Mtim}); err != nil {
			return false, err
		}
	}
	r.u.pending.add(st.Ino, overlay.Root, o)
	return true, r.u.pending.settle(st.Ino, fd)
}

// hasHole reports whether the first size bytes of fd are not all data.
func hasHole(fd int, size int64) (bool, error) {
	hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	if is(err, unix.ENXIO) {
		return false, nil // empty
	}
	return hole < size, err
}

// refill fills the holes of fd, and what is missing at its end, from the origin
// that note names. It reports false if that is not what it was. The copy has the
// name name.
func (r *recovery) refill(fd int, name overlay.Name, note copyNote) (bool, error) {
	if note.name != "" {
		name = overlay.Name(note.name)
	} else if below, err := r.u.below(name.Dir(), name.Base()); err == nil {
		name = below
	} else {
		return false, err
	}
	layer, ok := r.u.layers.id(note.layer)
	if !ok {
		return false, nil
	}
	from, err := r.open(r.ctx, layer, name)
	if err != nil {
		r.u.opt.Log.Warn("disklayer: origin of a copy", "layer", layer, "name", name, "err", err)
		return false, nil
	}
	defer from.Close()
	a, err := from.Stat(r.ctx)
	if err != nil {
		return false, unix.EIO
	}
	if a.Size != note.size || timesOf(a) != note.times {
		return false, nil
	}
	for off := int64(0); off < note.size; {
		data, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if is(err, unix.ENXIO) {
			data, err = note.size, nil
		}
		if err != nil {
			return false, err
		}
		data = min(data, note.size)
		if data > off {
			if _, err := r.u.copyRead(r.ctx, fd, from, off, data); err != nil {
				return false, err
			}
		}
		if data == note.size {
			return true, nil
		}
		if off, err = unix.Seek(fd, data, unix.SEEK_HOLE); err != nil {
			return false, err
		}
	}
	return true, nil
}
