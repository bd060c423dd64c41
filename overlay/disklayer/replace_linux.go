package disklayer

import (
	"golang.org/x/sys/unix"
)

// make has fn make base in d, a file of type typ that inherits b. A whiteout
// there is replaced in one step. EEXIST if there is a file. Preconditions: d's
// lock is held.
func (u *Upper) make(d *dir, base string, b *birth, typ uint32, fn func(at int, base string) error) error {
	gone, err := u.isGone(d, base)
	if err != nil {
		return err
	}
	if gone {
		return u.makeOver(d, base, b, typ, fn)
	}
	err = fn(d.fd, base)
	if !is(err, unix.EEXIST) {
		return err
	}
	st, err := lstat(d.fd, base)
	if err != nil {
		return err
	}
	if !isWhiteout(&st) {
		return unix.EEXIST
	}
	return u.makeOver(d, base, b, typ, fn)
}

// makeOver is make at a whiteout: the file is made in the work directory and
// takes the whiteout's place complete. A directory is opaque.
func (u *Upper) makeOver(d *dir, base string, b *birth, typ uint32, fn func(at int, base string) error) error {
	nest, err := u.nest(b)
	if err != nil {
		return err
	}
	defer nest.close()
	tmp := workName()
	if err := fn(nest.at, tmp); err != nil {
		return err
	}
	if typ == unix.S_IFDIR {
		err = u.marks.set(nest.at, tmp, markOpaque, []byte("y"))
	}
	if err == nil {
		err = u.replaceWhiteout(nest.at, tmp, d, base, typ)
	}
	if err != nil {
		unix.Unlinkat(nest.at, tmp, rmFlag(typ))
	}
	return err
}

// replaceWhiteout moves tmp, a file of type typ in the directory at, to base in
// d in one step, where a whiteout is. Preconditions: d's lock is held.
func (u *Upper) replaceWhiteout(at int, tmp string, d *dir, base string, typ uint32) error {
	gone, err := u.isGone(d, base)
	if err != nil {
		return err
	}
	if err := u.step("rename over whiteout"); err != nil {
		return err
	}
	if gone {
		if err := unix.Renameat2(at, tmp, d.fd, base, unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		err := u.setGone(d, base, false)
		if err == nil {
			return nil
		}
		if undo := unix.Renameat(d.fd, base, at, tmp); undo != nil {
			return unix.EIO
		}
		return err
	}
	if typ != unix.S_IFDIR {
		return unix.Renameat(at, tmp, d.fd, base)
	}
	// A directory cannot be renamed over a device, but they can change places.
	if err := unix.Renameat2(at, tmp, d.fd, base, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	u.discard(at, tmp)
	return nil
}

// discard removes the file tmp of the directory at, which is the work directory
// or in it. What cannot be removed is swept at the next start.
func (u *Upper) discard(at int, tmp string) {
	if u.step("discard") == nil {
		unix.Unlinkat(at, tmp, 0)
	}
}

// setGone records in the mark file whether base is whited out in d.
func (u *Upper) setGone(d *dir, base string, gone bool) error {
	st, err := fstat(d.fd)
	if err != nil {
		return err
	}
	if err := u.step("record whiteout"); err != nil {
		return err
	}
	return u.marks.extra.setGone(st.Ino, base, gone)
}

// A nest is a directory in which files are born that will be renamed.
type nest struct {
	u    *Upper
	at   int
	name string // in the work directory; empty if it is the work directory itself
}

// nest returns a directory whose files inherit b.
func (u *Upper) nest(b *birth) (*nest, error) {
	if b.acl == nil && !b.setgid {
		return &nest{u: u, at: u.work}, nil
	}
	name := workName()
	if err := unix.Mkdirat(u.work, name, 0o700); err != nil {
		return nil, err
	}
	n := &nest{u: u, at: -1, name: name}
	var err error
	if n.at, err = openat(u.work, name, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		err = n.inherit(b)
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// inherit has files in n inherit b.
func (n *nest) inherit(b *birth) error {
	if b.setgid {
		if err := unix.Fchown(n.at, -1, int(b.gid)); err != nil {
			return err
		}
		if err := unix.Fchmod(n.at, 0o700|unix.S_ISGID); err != nil {
			return err
		}
	}
	if b.acl != nil {
		return unix.Fsetxattr(n.at, aclDefault, b.acl, 0)
	}
	return nil
}

// close removes n, which is empty.
func (n *nest) close() {
	if n.name == "" {
		return
	}
	if n.at >= 0 {
		unix.Close(n.at)
	}
	unix.Unlinkat(n.u.work, n.name, unix.AT_REMOVEDIR) // else swept at the next start
}
