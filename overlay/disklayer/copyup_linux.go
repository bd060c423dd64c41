package disklayer

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// CopyUp implements overlay.Upper. The times of the parent stay as they are.
func (u *Upper) CopyUp(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if err := u.copyUp(ctx, name, c); err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = unix.EINTR
		}
		return fail("copyup", name, err)
	}
	return nil
}

func (u *Upper) copyUp(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if name == overlay.Root {
		return unix.EEXIST
	}
	d, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	if err := u.vacant(d, base); err != nil {
		return err
	}
	w := &workFile{u: u, name: workName(), typ: c.Attr.Type(), fd: -1}
	defer w.close()
	if err := w.fill(ctx, c); err != nil {
		w.discard()
		return err
	}
	if err := u.publish(w, d, name, base, c); err != nil {
		w.discard()
		return err
	}
	return nil
}

// vacant returns EEXIST if there is a file at base in d.
func (u *Upper) vacant(d *dir, base string) error {
	_, err := u.stat(d, base)
	switch {
	case err == nil:
		return unix.EEXIST
	case is(err, unix.ENOENT):
		return nil
	}
	return err
}

// A workFile is a copy of a lower file that has no name in the layer yet.
type workFile struct {
	u    *Upper
	name string // in the work directory
	typ  uint32
	fd   int // open if it is a regular file, else -1
	ino  uint64
	made bool

	origin  origin
	pending bool // it carries markCopy
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

// fill makes w the file that c describes.
func (w *workFile) fill(ctx context.Context, c overlay.Copy) error {
	if err := w.make(c); err != nil {
		return err
	}
	w.made = true
	st, err := lstat(w.u.work, w.name)
	if err != nil {
		return err
	}
	w.ino = st.Ino
	sparse := false
	if w.fd >= 0 && c.From != nil {
		if sparse, err = w.u.copyData(ctx, w.fd, c.From, c.Attr.Size); err != nil {
			return err
		}
	}
	if err := w.setOwnerAndAttrs(c); err != nil {
		return err
	}
	if err := w.setMarks(c, sparse); err != nil {
		return err
	}
	return w.setModeAndTimes(c)
}

// make makes w without content or attributes.
func (w *workFile) make(c overlay.Copy) (err error) {
	if err := w.u.step("make copy"); err != nil {
		return err
	}
	switch w.typ {
	case unix.S_IFREG:
		flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		w.fd, err = w.u.openNew(w.u.work, w.name, flags, 0o600)
		return err
	case unix.S_IFDIR:
		return unix.Mkdirat(w.u.work, w.name, 0o700)
	case unix.S_IFLNK:
		return unix.Symlinkat(c.Target, w.u.work, w.name)
	}
	return unix.Mknodat(w.u.work, w.name, w.typ|0o600, int(c.Attr.Rdev))
}

// setOwnerAndAttrs gives w its owner and extended attributes. The owner goes
// first, since changing it takes security.capability away.
func (w *workFile) setOwnerAndAttrs(c overlay.Copy) error {
	if c.Attr.UID != w.u.uid || c.Attr.GID != w.u.gid {
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
// user give files away: then the copy is the user's.
func (w *workFile) mayKeepOwner(err error) bool {
	return w.u.uid != 0 && is(err, unix.EPERM)
}

// setMarks marks w with its origin and, if it has data that is not durable yet,
// as a pending copy.
func (w *workFile) setMarks(c overlay.Copy, sparse bool) error {
	w.origin = origin{ino: c.Origin}
	if w.typ != unix.S_IFDIR && c.Attr.Nlink > 1 {
		// One name is copied, and the index has a link.
		w.origin.indexed, w.origin.links = true, int32(c.Attr.Nlink)-2
	}
	if c.Origin != 0 {
		if err := w.u.marks.set(w.u.work, w.name, markOrigin, w.origin.bytes()); err != nil {
			return err
		}
	}
	if w.fd < 0 {
		return nil
	}
	st, err := fstat(w.fd)
	if err != nil || st.Size == 0 {
		return err
	}
	if w.u.marks.user && c.Attr.Mode&0o600 != 0o600 {
		// The mark could not be taken away again: its owner may not write the file.
		return again(func() error { return unix.Fsync(w.fd) })
	}
	note := copyNote{Layer: c.Layer, Name: string(c.Name), Size: st.Size, Sparse: sparse,
		OriginSize: c.Attr.Size, Mtime: c.Attr.Mtime.UnixNano(), Ctime: c.Attr.Ctime.UnixNano()}
	err = w.u.marks.set(w.u.work, w.name, markCopy, note.bytes())
	if is(err, unix.ENOSPC, unix.E2BIG) { // a name that no attribute holds
		return again(func() error { return unix.Fsync(w.fd) })
	}
	w.pending = err == nil
	return err
}

// setModeAndTimes comes last: a file without write permission takes no marks
// from an ordinary user, and writing changes the times.
func (w *workFile) setModeAndTimes(c overlay.Copy) error {
	if w.typ != unix.S_IFLNK {
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

// publish gives w the name name, base in d.
func (u *Upper) publish(w *workFile, d *dir, name overlay.Name, base string, c overlay.Copy) error {
	defer u.lock(name.Dir()).Unlock()
	if err := u.vacant(d, base); err != nil {
		return err
	}
	if c.Origin != 0 {
		if err := u.setImpure(d); err != nil {
			return err
		}
	}
	if w.origin.indexed && c.Origin != 0 {
		if err := u.links.add(u, w.origin.ino, u.work, w.name); err != nil {
			return err
		}
	}
	if w.pending {
		u.pending.add(w.ino, name, w.origin)
	}
	if err := u.place(u.work, w.name, d, base, w.typ); err != nil {
		if w.origin.indexed && c.Origin != 0 {
			u.links.drop(u, w.origin.ino) // else Recover finds it without a name
		}
		return err
	}
	if w.origin.indexed {
		u.names.add(w.ino, name)
	}
	return nil
}

// place moves tmp, a file of type typ in the directory at, to base in d, where
// nothing or a whiteout is. d's times stay. Preconditions: d's lock is held.
func (u *Upper) place(at int, tmp string, d *dir, base string, typ uint32) error {
	before, err := fstat(d.fd)
	if err != nil {
		return err
	}
	err = u.placeNow(at, tmp, d, base, typ)
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, before.Mtim}
	if err := u.step("utimes parent"); err != nil {
		return nil // the file is in place; the parent's time is all that is lost
	}
	setTimes(d.fd, ".", &times)
	return nil
}

// placeNow is place without regard to times.
func (u *Upper) placeNow(at int, tmp string, d *dir, base string, typ uint32) error {
	st, err := lstat(d.fd, base)
	if err == nil && isWhiteout(&st) {
		return u.replaceWhiteout(at, tmp, d, base, typ)
	}
	gone, err := u.isGone(d, base)
	if err != nil {
		return err
	}
	if gone {
		return u.replaceWhiteout(at, tmp, d, base, typ)
	}
	if err := u.step("rename copy"); err != nil {
		return err
	}
	err = unix.Renameat2(at, tmp, d.fd, base, unix.RENAME_NOREPLACE)
	if is(err, unix.EINVAL) { // a file system without the flag; d's lock keeps the name free
		return unix.Renameat(at, tmp, d.fd, base)
	}
	return err
}
