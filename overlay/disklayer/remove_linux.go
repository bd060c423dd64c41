package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Remove implements overlay.Layer.
func (u *Upper) Remove(_ context.Context, name overlay.Name) error {
	if err := u.takeAway(name, false); err != nil {
		return fail("remove", name, err)
	}
	return nil
}

// Whiteout implements overlay.Upper.
func (u *Upper) Whiteout(_ context.Context, name overlay.Name) error {
	if err := u.takeAway(name, true); err != nil {
		return fail("whiteout", name, err)
	}
	return nil
}

// takeAway removes name and, with mark, leaves a whiteout in its place.
func (u *Upper) takeAway(name overlay.Name, mark bool) error {
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	if base == "." {
		return unix.EBUSY
	}
	unlock := u.lockAll(name.Dir(), name)
	defer unlock()
	st, err := lstat(d.fd, base)
	switch {
	case err == nil && isWhiteout(&st):
		return absentUnless(mark)
	case is(err, unix.ENOENT) && mark:
		return u.putWhiteout(d, base)
	case is(err, unix.ENOENT):
		return unix.ENOENT
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return u.takeDir(d, name, base, &st, mark)
	}
	return u.takeFile(d, name, base, &st, mark)
}

func absentUnless(mark bool) error {
	if mark {
		return nil
	}
	return unix.ENOENT
}

// takeFile removes the file name, base in d. Preconditions: d's lock is held.
func (u *Upper) takeFile(d *dir, name overlay.Name, base string, st *unix.Stat_t, mark bool) error {
	last, err := u.lastOf(d, base, st)
	if err != nil {
		return err
	}
	if mark {
		err = u.whiteoutFile(d, base)
	} else if err = u.step("unlink"); err == nil {
		err = unix.Unlinkat(d.fd, base, 0)
	}
	if err != nil {
		return err
	}
	return u.lost(name, st, last)
}

// whiteoutFile puts a whiteout in the place of the file base in d, in one step.
func (u *Upper) whiteoutFile(d *dir, base string) error {
	if u.gone {
		return u.recordGone(d, base, func() error {
			if err := u.step("unlink"); err != nil {
				return err
			}
			return unix.Unlinkat(d.fd, base, 0)
		})
	}
	tmp := workName()
	if err := u.newWhiteout(u.work, tmp); err != nil {
		return err
	}
	err := u.step("rename whiteout over file")
	if err == nil {
		err = unix.Renameat(u.work, tmp, d.fd, base)
	}
	if err != nil {
		u.discard(u.work, tmp)
	}
	return err
}

// recordGone records that base is gone from d and has remove take the file away.
// In between the file counts. If remove fails, so does the record.
func (u *Upper) recordGone(d *dir, base string, remove func() error) error {
	if err := u.setGone(d, base, true); err != nil {
		return err
	}
	err := remove()
	if err == nil {
		return nil
	}
	if undo := u.setGone(d, base, false); undo != nil {
		return undo
	}
	return err
}

// putWhiteout makes a whiteout at base in d, where nothing is.
func (u *Upper) putWhiteout(d *dir, base string) error {
	if u.gone {
		return u.setGone(d, base, true)
	}
	return u.newWhiteout(d.fd, base)
}

// newWhiteout makes a whiteout at base in the directory at. It is one more
// link to one whiteout, so that it needs no inode: deleting works on a full
// disk.
func (u *Upper) newWhiteout(at int, base string) error {
	if err := u.step("link whiteout"); err != nil {
		return err
	}
	err := unix.Linkat(u.work, whiteName, at, base, 0)
	if !is(err, unix.EMLINK, unix.ENOENT) {
		return err
	}
	u.whiteMu.Lock()
	defer u.whiteMu.Unlock()
	tmp := workName()
	if err := unix.Mknodat(u.work, tmp, unix.S_IFCHR, 0); err != nil {
		return err
	}
	if err := unix.Renameat(u.work, tmp, u.work, whiteName); err != nil {
		return err
	}
	return unix.Linkat(u.work, whiteName, at, base, 0)
}

// probeWhiteout makes the whiteout that others become links to and reports
// whether the file system refuses it.
func (u *Upper) probeWhiteout() (refused bool, err error) {
	err = unix.Mknodat(u.work, whiteName, unix.S_IFCHR, 0)
	switch {
	case err == nil, is(err, unix.EEXIST):
		return false, nil
	case is(err, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP, unix.EINVAL):
		return true, nil
	}
	return false, err
}

// takeDir removes the directory name, base in d, which may hold nothing but
// whiteouts. Preconditions: the locks of d and of name are held.
func (u *Upper) takeDir(d *dir, name overlay.Name, base string, st *unix.Stat_t, mark bool) error {
	if !mark {
		if err := u.step("rmdir"); err != nil {
			return err
		}
		err := unix.Unlinkat(d.fd, base, unix.AT_REMOVEDIR)
		if !is(err, unix.ENOTEMPTY, unix.EEXIST) {
			if err == nil {
				err = u.lostDir(name, st)
			}
			return err
		}
	}
	if err := u.mustBeEmpty(name); err != nil {
		return err
	}
	tmp := workName()
	if err := u.moveDirAway(d, base, tmp, mark); err != nil {
		return err
	}
	u.sweepDir(u.work, tmp)
	return u.lostDir(name, st)
}

// mustBeEmpty returns ENOTEMPTY if the directory name holds more than whiteouts.
func (u *Upper) mustBeEmpty(name overlay.Name) error {
	shown, _, err := u.list(name)
	if err == nil && len(shown) > 0 {
		return unix.ENOTEMPTY
	}
	return err
}

// moveDirAway moves the directory base in d into the work directory as tmp in
// one step and, with mark, leaves a whiteout in its place.
func (u *Upper) moveDirAway(d *dir, base, tmp string, mark bool) error {
	move := func() error {
		if err := u.step("rename to work"); err != nil {
			return err
		}
		return unix.Renameat(d.fd, base, u.work, tmp)
	}
	switch {
	case !mark:
		return move()
	case u.gone:
		return u.recordGone(d, base, move)
	}
	if err := u.newWhiteout(u.work, tmp); err != nil {
		return err
	}
	err := u.step("exchange with whiteout")
	if err == nil {
		err = unix.Renameat2(u.work, tmp, d.fd, base, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		u.discard(u.work, tmp)
	}
	return err
}

// sweepDir removes the directory name of the directory at and all in it. It is
// in the work directory, so what stays is swept at the next start.
func (u *Upper) sweepDir(at int, name string) {
	if u.step("sweep") != nil {
		return
	}
	if unix.Unlinkat(at, name, unix.AT_REMOVEDIR) == nil {
		return
	}
	fd, err := openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	entries, err := readEntries(fd, 0)
	if err == nil {
		for _, e := range entries {
			if unix.Unlinkat(fd, e.Name, 0) != nil {
				u.sweepDir(fd, e.Name)
			}
		}
	}
	unix.Close(fd)
	unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}

// lostDir forgets the directory name, which was st and is gone.
func (u *Upper) lostDir(name overlay.Name, st *unix.Stat_t) error {
	u.cache.forget(name)
	return u.marks.extra.forget(st.Ino)
}

// lastOf returns what lost needs to know about the file base in d, before it
// loses that name.
func (u *Upper) lastOf(d *dir, base string, st *unix.Stat_t) (origin, error) {
	if st.Nlink == 1 || !u.impure(d) {
		return origin{}, nil
	}
	return u.marks.origin(d.fd, base, st.Ino)
}

// lost forgets that a file, which was st with the origin o, had the name name.
// If that was its last, a link in the index goes, too.
func (u *Upper) lost(name overlay.Name, st *unix.Stat_t, o origin) error {
	u.names.remove(st.Ino, name)
	if o.indexed && int64(st.Nlink)-1+int64(o.links) <= 0 {
		if err := u.links.drop(u, o.ino); err != nil {
			return err
		}
		st.Nlink--
	}
	if st.Nlink > 1 {
		return nil
	}
	u.pending.forget(st.Ino)
	return u.marks.extra.forget(st.Ino)
}

// SetOpaque implements overlay.Upper.
func (u *Upper) SetOpaque(_ context.Context, name overlay.Name, opaque bool) error {
	value := []byte(nil)
	if opaque {
		value = []byte("y")
	}
	if err := u.setDirMark(name, markOpaque, value); err != nil {
		return fail("setopaque", name, err)
	}
	return nil
}

// SetRedirect implements overlay.Redirecter.
func (u *Upper) SetRedirect(_ context.Context, name, target overlay.Name) error {
	value := []byte(nil)
	if target != "" {
		if err := target.Check("setredirect"); err != nil {
			return err
		}
		value = []byte("/" + string(target))
	}
	if target == overlay.Root {
		value = []byte("/")
	}
	if err := u.setDirMark(name, markRedirect, value); err != nil {
		return fail("setredirect", name, err)
	}
	return nil
}

// setDirMark gives the directory name the mark k, or takes it away if value is
// nil.
func (u *Upper) setDirMark(name overlay.Name, k mark, value []byte) error {
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	mu := u.lock(name.Dir())
	defer mu.Unlock()
	st, err := u.stat(d, base)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	if value == nil {
		return u.marks.remove(d.fd, base, k)
	}
	return u.marks.set(d.fd, base, k, value)
}
