package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// CopyUp implements overlay.Upper.
func (u *Upper) CopyUp(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if c.Install == nil { // else the caller has looked
		if err := u.vacant(name, c.Replace); err != nil {
			return fail("copyup", name, err)
		}
	}
	w := &workFile{u: u, name: workName(), typ: c.Attr.Type(), fd: -1}
	defer w.close()
	if err := w.fill(ctx, name, c); err != nil {
		w.discard()
		return fail("copyup", name, err)
	}
	placed := false
	put := func() error {
		if err := u.publish(w, name, c); err != nil {
			return fail("copyup", name, err)
		}
		placed = true
		return nil
	}
	install := c.Install
	if install == nil {
		install = func(put func() error) error { return put() }
	}
	err := install(put)
	if !placed {
		w.discard()
	}
	return err
}

// vacant returns EEXIST if there is something at name that a copy may not
// replace, before it is made in vain.
func (u *Upper) vacant(name overlay.Name, replace bool) error {
	if name == overlay.Root {
		return unix.EEXIST
	}
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	_, err = u.slot(d, base, replace)
	return err
}

// A slot is what is at a name that a copy gets.
type slot struct {
	st   unix.Stat_t
	held bool // there is a file of the layer, which is st
	gone bool // there is a whiteout
}

// slot returns what is at base in d, or EEXIST if it may not be replaced.
func (u *Upper) slot(d *dir, base string, replace bool) (s slot, err error) {
	s.st, err = lstat(d.fd, base)
	switch {
	case is(err, unix.ENOENT):
		s.gone, err = u.isGone(d, base)
		if err != nil {
			return s, err
		}
	case err != nil:
		return s, err
	case isWhiteout(&s.st):
		s.gone = true
	default:
		s.held = true
	}
	isDir := s.held && s.st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir || ((s.held || s.gone) && !replace) {
		return s, unix.EEXIST
	}
	return s, nil
}

// A workFile is a copy of a lower file that has no name in the layer yet.
type workFile struct {
	u    *Upper
	name string // in the work directory
	typ  uint32
	fd   int // open if it is a regular file, else -1
	made bool

	ino  uint64 // what look found
	size int64

	origin origin
}

func (w *workFile) close() {
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
}

// discard removes w from the work directory and from the tables.
func (w *workFile) discard() {
	if !w.made {
		return
	}
	w.u.pending.forget(w.ino)
	unix.Unlinkat(w.u.work, w.name, rmFlag(w.typ)) // else swept at the next start
	w.u.marks.extra.forget(w.ino)
}

// fill makes w the file that c describes, which will get the name name.
func (w *workFile) fill(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if name == overlay.Root {
		return unix.EEXIST
	}
	if err := w.make(c); err != nil {
		return err
	}
	w.made = true
	sparse := false
	if w.fd >= 0 && c.From != nil {
		var err error
		if sparse, err = w.u.copyData(ctx, w.fd, c.From, c.Attr.Size); err != nil {
			return err
		}
	}
	if err := w.look(); err != nil {
		return err
	}
	if err := w.setOwnerAndAttrs(c); err != nil {
		return err
	}
	if err := w.setMark(name, c, sparse); err != nil {
		return err
	}
	if err := w.setModeAndTimes(c); err != nil || !c.Durable {
		return err
	}
	return w.sync()
}

// look finds out what w is, once it has its data.
func (w *workFile) look() error {
	var st unix.Stat_t
	var err error
	if w.fd >= 0 {
		st, err = fstat(w.fd)
	} else {
		st, err = lstat(w.u.work, w.name)
	}
	w.ino, w.size = st.Ino, st.Size
	return err
}

// sync makes w durable.
func (w *workFile) sync() error {
	if err := w.u.step("fsync copy"); err != nil {
		return err
	}
	if w.fd >= 0 {
		return again(func() error { return unix.Fsync(w.fd) })
	}
	return again(func() error { return unix.Syncfs(w.u.root) })
}

// make makes w without content or attributes.
func (w *workFile) make(c overlay.Copy) (err error) {
	if err := w.u.step("make copy"); err != nil {
		return err
	}
	switch w.typ {
	case unix.S_IFREG:
		flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		mode := uint32(0o600)
		if w.plain(c) {
			mode = c.Attr.Mode & overlay.ModeMask
		}
		w.fd, err = w.u.openNew(w.u.work, w.name, flags, mode)
		return err
	case unix.S_IFDIR:
		return unix.Mkdirat(w.u.work, w.name, 0o700)
	case unix.S_IFLNK:
		return unix.Symlinkat(c.Target, w.u.work, w.name)
	}
	return unix.Mknodat(w.u.work, w.name, w.typ|0o600, int(c.Attr.Rdev))
}

// plain reports whether w can be made with the permissions of the copy: nothing
// that is done to it later needs others, or changes them.
func (w *workFile) plain(c overlay.Copy) bool {
	mode := c.Attr.Mode & overlay.ModeMask
	return w.typ == unix.S_IFREG && mode&^0o777 == 0 && mode&0o600 == 0o600 && len(c.Xattrs) == 0 && !w.foreign(c)
}

// foreign reports whether the copy belongs to another than who makes it.
func (w *workFile) foreign(c overlay.Copy) bool {
	return c.Attr.UID != w.u.uid || c.Attr.GID != w.u.gid
}

// setOwnerAndAttrs gives w its owner and extended attributes. The owner goes
// first, since changing it takes security.capability away.
func (w *workFile) setOwnerAndAttrs(c overlay.Copy) error {
	if w.foreign(c) {
		if err := w.u.step("chown copy"); err != nil {
			return err
		}
		err := unix.Fchownat(w.u.work, w.name, int(c.Attr.UID), int(c.Attr.GID), unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !w.mayKeepOwner(err) {
			return err
		}
	}
	for _, x := range c.Xattrs {
		if ownAttr(x.Name) {
			continue
		}
		if err := w.u.step("setxattr copy"); err != nil {
			return err
		}
		if err := setxattr(w.u.work, w.name, x.Name, x.Value, 0); err != nil {
			return err
		}
	}
	return nil
}

// mayKeepOwner reports whether err is the kernel's refusal to let an ordinary
// user give files away, or in a user namespace to an owner that it does not
// know: then the copy is the user's.
func (w *workFile) mayKeepOwner(err error) bool {
	return w.u.marks.user && is(err, unix.EPERM, unix.EINVAL)
}

// setMark marks w with its origin and, if it has data that is not durable yet,
// as a pending copy. w will get the name name.
func (w *workFile) setMark(name overlay.Name, c overlay.Copy, sparse bool) error {
	w.origin = origin{ino: c.Origin}
	if w.typ != unix.S_IFDIR && c.Attr.Nlink > 1 && c.Origin != 0 {
		// One name is copied, and the index has a link.
		w.origin.indexed, w.origin.links = true, int32(c.Attr.Nlink)-2
	}
	if w.fd >= 0 && !c.Durable {
		if err := w.setPending(name, c, sparse); err != nil {
			return err
		}
	}
	if w.origin.pending || w.origin.empty() {
		return nil
	}
	return w.u.marks.set(w.u.work, w.name, markOrigin, w.origin.bytes())
}

// setPending marks w as a pending copy or, where the mark cannot be set or could
// not be taken away again, makes w's data durable.
func (w *workFile) setPending(name overlay.Name, c overlay.Copy, sparse bool) error {
	if w.size == 0 {
		return nil
	}
	layer, err := w.u.layers.number(w.u, c.Layer)
	if err != nil {
		return err
	}
	o := w.origin
	o.pending, o.copy = true, copyNote{layer: layer, size: w.size, sparse: sparse, times: timesOf(c.Attr)}
	if c.Name != name || o.indexed { // what is in the index may lose its name
		o.copy.name = string(c.Name)
	}
	value := o.bytes()
	if len(value) > maxPending || (w.u.marks.user && c.Attr.Mode&0o600 != 0o600) {
		return w.sync()
	}
	if err := w.u.step("mark copy"); err != nil {
		return err
	}
	if unix.Fsetxattr(w.fd, w.u.marks.attrs[markOrigin], value, 0) != nil {
		return w.sync()
	}
	w.origin = o
	return nil
}

// setModeAndTimes comes last: a file without write permission takes no marks
// from an ordinary user, and writing changes the times.
func (w *workFile) setModeAndTimes(c overlay.Copy) error {
	if w.typ != unix.S_IFLNK && !w.plain(c) {
		if err := w.u.step("chmod copy"); err != nil {
			return err
		}
		if err := unix.Fchmodat(w.u.work, w.name, c.Attr.Mode&overlay.ModeMask, 0); err != nil {
			return err
		}
	}
	atime, err := timespec(c.Attr.Atime)
	if err != nil {
		return err
	}
	mtime, err := timespec(c.Attr.Mtime)
	if err != nil {
		return err
	}
	if err := w.u.step("utimes copy"); err != nil {
		return err
	}
	return setTimes(w.u.work, w.name, &[2]unix.Timespec{atime, mtime})
}

// publish gives w the name name.
func (u *Upper) publish(w *workFile, name overlay.Name, c overlay.Copy) error {
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	defer u.lock(name.Dir()).Unlock()
	var old slot
	if c.Replace {
		old, err = u.slot(d, base, true)
	} else if old.gone, err = u.isGone(d, base); old.gone { // all else that is there is in the way of the rename
		err = unix.EEXIST
	}
	if err != nil {
		return err
	}
	if err := w.enter(d, name); err != nil {
		return err
	}
	if err := w.put(d, name, base, old); err != nil {
		if w.origin.indexed {
			u.links.drop(u, w.origin.ino) // else Recover finds it without a name
		}
		return err
	}
	if w.origin.indexed {
		u.names.add(w.ino, name)
	}
	if !c.Durable {
		return nil
	}
	return u.syncDir(d)
}

// enter prepares the directory d and the tables for w, which gets the name name.
func (w *workFile) enter(d *dir, name overlay.Name) error {
	if !w.origin.empty() {
		if err := w.u.setImpure(d); err != nil {
			return err
		}
	}
	if w.origin.indexed {
		if err := w.u.links.add(w.u, w.origin.ino, w.u.work, w.name); err != nil {
			return err
		}
	}
	if w.origin.pending {
		w.u.pending.add(w.ino, name, w.origin)
	}
	return nil
}

// put moves w to name, base in d, where old is. Preconditions: d's lock is held.
func (w *workFile) put(d *dir, name overlay.Name, base string, old slot) error {
	u := w.u
	switch {
	case old.gone:
		if w.typ == unix.S_IFDIR {
			if err := u.marks.set(u.work, w.name, markOpaque, []byte("y")); err != nil {
				return err
			}
		}
		return u.replaceWhiteout(u.work, w.name, d, base, w.typ)
	case !old.held:
		return u.place(u.work, w.name, d, base)
	case w.typ == unix.S_IFDIR:
		return unix.EEXIST
	}
	o, err := u.lastOf(d, base, &old.st)
	if err != nil {
		return err
	}
	if err := u.step("rename copy over file"); err != nil {
		return err
	}
	if err := unix.Renameat(u.work, w.name, d.fd, base); err != nil {
		return err
	}
	return u.lost(name, &old.st, o)
}

// syncDir makes the names in d durable.
func (u *Upper) syncDir(d *dir) error {
	if err := u.step("fsync directory"); err != nil {
		return err
	}
	fd, err := u.tree.open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if is(err, unix.EACCES) { // one that its owner may not list
		return again(func() error { return unix.Syncfs(u.root) })
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return again(func() error { return unix.Fsync(fd) })
}

// place moves tmp of the directory at to base in d, where nothing is. d's times
// stay. Preconditions: d's lock is held.
func (u *Upper) place(at int, tmp string, d *dir, base string) error {
	before, err := fstat(d.fd)
	if err != nil {
		return err
	}
	if err := u.step("rename copy"); err != nil {
		return err
	}
	err = unix.Renameat2(at, tmp, d.fd, base, unix.RENAME_NOREPLACE)
	if is(err, unix.EINVAL) { // a file system without the flag; d's lock keeps a free name free
		if _, err = u.slot(d, base, false); err == nil {
			err = unix.Renameat(at, tmp, d.fd, base)
		}
	}
	if err != nil {
		return err
	}
	// The file is in place: the parent's time is all that can be lost now.
	if u.step("utimes parent") == nil {
		setTimes(d.fd, ".", &[2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, before.Mtim})
	}
	return nil
}
