package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A target is a file to change: base in the directory at or, if open, the file
// open as at.
type target struct {
	at   int
	base string
	open bool
}

func (t target) chown(uid, gid int) error {
	if t.open {
		return unix.Fchown(t.at, uid, gid)
	}
	return unix.Fchownat(t.at, t.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// chmod must not be called for a symbolic link by name.
func (t target) chmod(mode uint32) error {
	if t.open {
		return unix.Fchmod(t.at, mode)
	}
	return unix.Fchmodat(t.at, t.base, mode, 0)
}

func (t target) removexattr(attr string) error {
	if t.open {
		return unix.Fremovexattr(t.at, attr)
	}
	return removexattr(t.at, t.base, attr)
}

// SetAttr implements overlay.Layer.
func (u *Upper) SetAttr(_ context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	a, err := u.setAttr(name, set)
	if err != nil {
		return overlay.Attr{}, fail("setattr", name, err)
	}
	return a, nil
}

func (u *Upper) setAttr(name overlay.Name, set overlay.SetAttr) (a overlay.Attr, err error) {
	d, base, err := u.parent(name)
	if err != nil {
		return a, err
	}
	defer u.cache.put(d)
	st, err := u.stat(d, base)
	if err != nil {
		return a, err
	}
	if set.Valid&overlay.SetSize != 0 {
		if _, err := u.regular(d, base); err != nil {
			return a, err
		}
	}
	to := target{at: d.fd, base: base}
	if set.Valid&overlay.SetSize != 0 || u.marks.user {
		if err := u.settle(d, base, st.Ino); err != nil {
			return a, err
		}
	}
	if u.marks.user && set.Valid&overlay.SetMode != 0 {
		if err := u.marks.keepReadable(d.fd, base, st.Ino, set.Mode); err != nil {
			return a, err
		}
	}
	if set.Valid&overlay.SetSize != 0 {
		err = u.changeOpen(d, base, set)
	} else {
		err = u.change(to, &st, set)
	}
	if err != nil {
		return a, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		u.forgetBirth(name)
	}
	if st, err = u.stat(d, base); err != nil {
		return a, err
	}
	return u.attr(d, base, name, &st)
}

// forgetBirth has the next file made in the directory name ask what it takes
// from it.
func (u *Upper) forgetBirth(name overlay.Name) {
	if d, _ := u.cache.get(name); d != nil {
		d.birth.Store(nil)
		u.cache.put(d)
	}
}

// changeOpen makes a change that needs the file base in d open: of its size.
func (u *Upper) changeOpen(d *dir, base string, set overlay.SetAttr) error {
	fd, err := u.openFile(d, base, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		return err
	}
	return u.change(target{at: fd, open: true}, &st, set)
}

// change makes the changes of set to the file to, which is st. After an error
// owner and permissions are as they were.
func (u *Upper) change(to target, st *unix.Stat_t, set overlay.SetAttr) error {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		set.Valid &^= overlay.SetMode // a link's permissions do not count and never change
	}
	err := u.changeAccess(to, st, set)
	if err == nil {
		err = u.changeSize(to, st, set)
	}
	if err == nil {
		err = u.changeTimes(to, set)
	}
	const owner, access = overlay.SetUID | overlay.SetGID, overlay.SetMode | overlay.ClearPrivileges
	if err == nil || set.Valid&(owner|access) == 0 {
		return err
	}
	if set.Valid&owner != 0 {
		to.chown(int(st.Uid), int(st.Gid)) // best effort: the first error counts
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		to.chmod(st.Mode & overlay.ModeMask)
	}
	return err
}

// changeAccess changes privileges, owner and permissions.
func (u *Upper) changeAccess(to target, st *unix.Stat_t, set overlay.SetAttr) error {
	if set.Valid&overlay.ClearPrivileges != 0 {
		if err := u.clearPrivileges(to, st); err != nil {
			return err
		}
	}
	uid, gid := -1, -1
	if set.Valid&overlay.SetUID != 0 {
		uid = int(set.UID)
	}
	if set.Valid&overlay.SetGID != 0 {
		gid = int(set.GID)
	}
	if uid >= 0 || gid >= 0 {
		if err := u.step("chown"); err != nil {
			return err
		}
		if err := to.chown(uid, gid); err != nil {
			return err
		}
	}
	if set.Valid&overlay.SetMode == 0 {
		return nil
	}
	if err := u.step("chmod"); err != nil {
		return err
	}
	return to.chmod(set.Mode & overlay.ModeMask)
}

// clearPrivileges does what overlay.ClearPrivileges says.
func (u *Upper) clearPrivileges(to target, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	mode := st.Mode & overlay.ModeMask
	left := mode &^ overlay.ModeSetUID
	if left&unix.S_IXGRP != 0 {
		left &^= overlay.ModeSetGID
	}
	err := to.removexattr("security.capability")
	if err != nil && !noMark(err) {
		return err
	}
	if left == mode {
		return nil
	}
	if err := u.step("clear privileges"); err != nil {
		return err
	}
	return to.chmod(left)
}

// changeSize changes the size of the open file to.
func (u *Upper) changeSize(to target, st *unix.Stat_t, set overlay.SetAttr) error {
	if set.Valid&overlay.SetSize == 0 {
		return nil
	}
	if !to.open {
		return unix.EINVAL
	}
	if err := u.pending.settle(st.Ino, to.at); err != nil {
		return err
	}
	if err := u.step("truncate"); err != nil {
		return err
	}
	err := again(func() error { return unix.Ftruncate(to.at, set.Size) })
	const special = overlay.ModeSetUID | overlay.ModeSetGID
	if err != nil || set.Valid&overlay.SetMode == 0 || set.Mode&special == 0 {
		return err
	}
	return to.chmod(set.Mode & overlay.ModeMask) // an ordinary user's truncation cleared them
}

// changeTimes changes the access and modification times.
func (u *Upper) changeTimes(to target, set overlay.SetAttr) error {
	const any = overlay.SetAtime | overlay.SetMtime | overlay.SetAtimeNow | overlay.SetMtimeNow
	if set.Valid&any == 0 {
		return nil
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	var err error
	switch {
	case set.Valid&overlay.SetAtimeNow != 0:
		times[0].Nsec = unix.UTIME_NOW
	case set.Valid&overlay.SetAtime != 0:
		times[0], err = timespec(set.Atime)
	}
	if err != nil {
		return err
	}
	switch {
	case set.Valid&overlay.SetMtimeNow != 0:
		times[1].Nsec = unix.UTIME_NOW
	case set.Valid&overlay.SetMtime != 0:
		times[1], err = timespec(set.Mtime)
	}
	if err != nil {
		return err
	}
	if err := u.step("utimes"); err != nil {
		return err
	}
	return setTimes(to.at, to.base, &times)
}
