package kvlayer

import (
	"context"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// maxLinks is the most names a file can have (EMLINK); all are in its record.
const maxLinks = 1000

// maxTarget is the longest target of a symbolic link (PATH_MAX with its NUL).
const maxTarget = 4095

// change makes one change of the tree on behalf of op on name.
func (l *Layer) change(ctx context.Context, op string, name overlay.Name, fn func(t *tx) error) error {
	if err := name.Check(op); err != nil {
		return err
	}
	return pathError(op, name, l.update(ctx, fn))
}

// newRecord is a file as it begins, without a number and a name.
func (t *tx) newRecord(typ, perm, uid, gid uint32) *record {
	return &record{
		mode: typ | perm&overlay.ModeMask, uid: uid, gid: gid,
		atime: t.now, mtime: t.now, ctime: t.now, version: t.n,
	}
}

// vacant returns the place of name, which must not hold a file (EEXIST), and
// what is there: nothing or a whiteout.
func (t *tx) vacant(name overlay.Name) (link, entry, error) {
	if name == overlay.Root {
		return link{}, entry{}, syscall.EEXIST
	}
	at, err := locate(t.ctx, t, name)
	if err != nil {
		return link{}, entry{}, err
	}
	e, err := t.entry(at)
	if err == nil && e.exists() {
		err = syscall.EEXIST
	}
	return at, e, err
}

// place makes r, a new record, the file at the place at.
func (t *tx) place(at link, r *record) error {
	r.links = append(r.links, at)
	if err := t.setEntry(at, r.entry()); err != nil {
		return err
	}
	if err := t.touchDir(at.dir); err != nil {
		return err
	}
	return t.count(at.dir, r, +1)
}

// take removes r's name at, and r with its last one. The place then holds e.
func (t *tx) take(at link, ino uint64, e entry) error {
	r, err := t.edit(ino)
	if err != nil {
		return err
	}
	if err := t.setEntry(at, e); err != nil {
		return err
	}
	if err := t.count(at.dir, r, -1); err != nil {
		return err
	}
	if err := t.touchDir(at.dir); err != nil {
		return err
	}
	r.links = slices.DeleteFunc(r.links, func(o link) bool { return o == at })
	if len(r.links) == 0 {
		return t.drop(ino)
	}
	r.ctime = t.now
	t.touched(r)
	return nil
}

// count has the directory dir hold by more files like r.
func (t *tx) count(dir uint64, r *record, by int) error {
	d, err := t.edit(dir)
	if err != nil {
		return err
	}
	d.children += uint64(by)
	if r.isDir() {
		d.subdirs += uint64(by)
	}
	return nil
}

// touchDir changes the times of the directory dir.
func (t *tx) touchDir(dir uint64) error {
	d, err := t.edit(dir)
	if err != nil {
		return err
	}
	d.mtime, d.ctime, d.version = t.now, t.now, t.n
	return nil
}

// makeNode makes the new file name. fill may complete its record.
func (t *tx) makeNode(name overlay.Name, typ uint32, perm overlay.Perm, fill func(*record)) (*record, error) {
	at, was, err := t.vacant(name)
	if err != nil {
		return nil, err
	}
	parent, err := t.record(at.dir)
	if err != nil {
		return nil, err
	}
	r := t.newRecord(typ, perm.Mode, perm.UID, perm.GID)
	if parent != nil {
		inherit(r, parent, perm)
	}
	if fill != nil {
		fill(r)
	}
	// What the whiteout hid stays hidden.
	r.opaque = r.isDir() && was.whiteout
	t.create(r)
	if err := t.place(at, r); err != nil {
		return nil, err
	}
	t.log(OpCreate, at, r)
	return r, nil
}

// Mkdir implements overlay.Layer.
func (l *Layer) Mkdir(ctx context.Context, name overlay.Name, perm overlay.Perm) error {
	return l.change(ctx, "mkdir", name, func(t *tx) error {
		_, err := t.makeNode(name, overlay.TypeDir, perm, nil)
		return err
	})
}

// Symlink implements overlay.Layer. ENAMETOOLONG for a target of more than
// 4,095 bytes, ENOENT for an empty one.
func (l *Layer) Symlink(ctx context.Context, target string, name overlay.Name, perm overlay.Perm) error {
	switch {
	case target == "":
		return overlay.PathError("symlink", name, syscall.ENOENT)
	case len(target) > maxTarget:
		return overlay.PathError("symlink", name, syscall.ENAMETOOLONG)
	}
	perm.Mode, perm.Umask = 0o777, 0
	return l.change(ctx, "symlink", name, func(t *tx) error {
		_, err := t.makeNode(name, overlay.TypeLink, perm, func(r *record) { r.target = target })
		return err
	})
}

// Mknod implements overlay.Noder. Device nodes are kept like any other; it is
// the mount that decides whether they can be opened.
func (l *Layer) Mknod(ctx context.Context, name overlay.Name, typ uint32, rdev uint64, perm overlay.Perm) error {
	switch typ {
	case overlay.TypeFIFO, overlay.TypeSock:
		rdev = 0
	case overlay.TypeBlock:
	case overlay.TypeChar:
		if rdev == 0 {
			return overlay.PathError("mknod", name, syscall.EPERM)
		}
	default:
		return overlay.PathError("mknod", name, syscall.EINVAL)
	}
	return l.change(ctx, "mknod", name, func(t *tx) error {
		_, err := t.makeNode(name, typ, perm, func(r *record) { r.rdev = rdev })
		return err
	})
}

// Link implements overlay.Linker. EMLINK at 1,000 names.
func (l *Layer) Link(ctx context.Context, oldname, newname overlay.Name) error {
	if err := oldname.Check("link"); err != nil {
		return err
	}
	return l.change(ctx, "link", newname, func(t *tx) error {
		old, err := find(ctx, t, oldname)
		switch {
		case err != nil:
			return err
		case old.isDir():
			return syscall.EPERM
		case len(old.links) >= maxLinks:
			return syscall.EMLINK
		}
		at, _, err := t.vacant(newname)
		if err != nil {
			return err
		}
		return t.addName(old.ino, at)
	})
}

// addName gives the file ino one more name.
func (t *tx) addName(ino uint64, at link) error {
	r, err := t.edit(ino)
	if err != nil {
		return err
	}
	r.ctime = t.now
	t.touched(r)
	t.log(OpLink, at, r)
	return t.place(at, r)
}

// Remove implements overlay.Layer. Whiteouts in a removed directory go when
// the segment is swept.
func (l *Layer) Remove(ctx context.Context, name overlay.Name) error {
	return l.change(ctx, "remove", name, func(t *tx) error {
		at, err := locate(ctx, t, name)
		if err != nil {
			return err
		}
		e, err := t.entry(at)
		if err != nil {
			return err
		}
		if !e.exists() {
			return syscall.ENOENT
		}
		return t.remove(at, e, entry{})
	})
}

// remove takes the file e from the place at, which then holds left. ENOTEMPTY
// for a directory with files in it.
func (t *tx) remove(at link, e, left entry) error {
	r, err := t.record(e.ino)
	switch {
	case err != nil:
		return err
	case r == nil:
		return t.l.corrupt("tree: no record", t.l.keys.record(e.ino))
	case r.children > 0:
		return syscall.ENOTEMPTY
	}
	t.log(OpRemove, at, nil)
	return t.take(at, e.ino, left)
}
