package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Tmpfile implements overlay.Tmpfiler.
func (u *Upper) Tmpfile(_ context.Context, name overlay.Name, perm overlay.Perm) (overlay.WriteHandle, error) {
	d, err := u.dirOrAbsent(name)
	if err != nil {
		return nil, fail("tmpfile", name, err)
	}
	defer u.cache.put(d)
	w, err := u.tmpfile(d, perm)
	if err != nil {
		return nil, fail("tmpfile", name, err)
	}
	return w, nil
}

func (u *Upper) tmpfile(d *dir, perm overlay.Perm) (*writer, error) {
	b, err := u.birthIn(d)
	if err != nil {
		return nil, err
	}
	if err := u.step("tmpfile"); err != nil {
		return nil, err
	}
	fd, err := u.openNew(d.fd, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, b.mode(perm))
	if err != nil {
		return nil, err
	}
	st, err := fstat(fd)
	if err == nil {
		err = u.ownOpen(fd, &st, b, perm)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &writer{reader: reader{t: u.tree, fd: fd}, u: u, ino: st.Ino, nameless: true}, nil
}

// ownOpen is own for the open file fd, which is st.
func (u *Upper) ownOpen(fd int, st *unix.Stat_t, b *birth, p overlay.Perm) error {
	uid, gid, change := u.owner(b, p)
	if change {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return err
		}
	}
	const special = overlay.ModeSetUID | overlay.ModeSetGID
	if p.Mode&special == 0 {
		return nil
	}
	return unix.Fchmod(fd, st.Mode&overlay.ModeMask|p.Mode&special)
}

// LinkHandle implements overlay.Tmpfiler. It takes handles that Tmpfile
// returned. A whiteout at newname is replaced.
func (u *Upper) LinkHandle(_ context.Context, h overlay.WriteHandle, newname overlay.Name) error {
	w, ok := overlay.As[*writer](h)
	if !ok || w.u != u || !w.nameless {
		return fail("link", newname, unix.EINVAL)
	}
	if err := u.linkHandle(w, newname); err != nil {
		return fail("link", newname, err)
	}
	return nil
}

func (u *Upper) linkHandle(w *writer, newname overlay.Name) error {
	d, base, err := u.parent(newname)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	defer u.lock(newname.Dir()).Unlock()
	err = u.make(d, base, &birth{}, unix.S_IFREG, func(at int, base string) error {
		if err := u.step("link handle"); err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, procPath(w.fd, "."), at, base, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil {
		return err
	}
	u.names.add(w.ino, newname)
	return nil
}
