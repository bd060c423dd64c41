package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// birth is what files made in a directory take from it.
type birth struct {
	gid    uint32
	setgid bool   // they get gid, and directories are set-group-id, too
	acl    []byte // the default ACL, nil if there is none
}

const (
	aclDefault = "system.posix_acl_default"
	aclAccess  = "system.posix_acl_access"
)

// birthIn returns what files made in d take from it.
func (u *Upper) birthIn(d *dir) (*birth, error) {
	if b := d.birth.Load(); b != nil {
		return b, nil
	}
	st, err := fstat(d.fd)
	if err != nil {
		return nil, err
	}
	b := &birth{gid: st.Gid, setgid: st.Mode&unix.S_ISGID != 0}
	acl := make([]byte, 1<<12)
	n, err := getxattr(d.fd, ".", aclDefault, acl)
	if is(err, unix.ERANGE) {
		acl = make([]byte, 1<<16)
		n, err = getxattr(d.fd, ".", aclDefault, acl)
	}
	switch {
	case err == nil:
		b.acl = acl[:n]
	case !noMark(err):
		return nil, err
	}
	d.birth.Store(b)
	return b, nil
}

// mode returns the permission bits to ask the kernel for.
func (b *birth) mode(p overlay.Perm) uint32 {
	mode := p.Mode & overlay.ModeMask
	if b.acl == nil {
		mode &^= p.Umask
	}
	return mode
}

// owner returns the owner to give a new file, and whether it is another than
// the kernel gave it.
func (u *Upper) owner(b *birth, p overlay.Perm) (uid, gid int, change bool) {
	if b.setgid {
		return int(p.UID), -1, p.UID != u.uid
	}
	return int(p.UID), int(p.GID), p.UID != u.uid || p.GID != u.gid
}

// own gives base in the directory at, just made with mode, its owner and the
// bits of mode that making it or changing its owner took away.
func (u *Upper) own(at int, base string, b *birth, p overlay.Perm, typ uint32) error {
	uid, gid, change := u.owner(b, p)
	if change {
		if err := u.step("chown"); err != nil {
			return err
		}
		if err := unix.Fchownat(at, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	const special = overlay.ModeSetUID | overlay.ModeSetGID
	if typ == unix.S_IFLNK || p.Mode&special == 0 {
		return nil
	}
	st, err := lstat(at, base)
	if err != nil {
		return err
	}
	want := st.Mode&overlay.ModeMask | p.Mode&special
	return unix.Fchmodat(at, base, want, 0)
}

// OpenFile implements overlay.Layer.
func (u *Upper) OpenFile(_ context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	d, base, err := u.parent(name)
	if err != nil {
		return nil, fail("open", name, err)
	}
	defer u.cache.put(d)
	w, err := u.openOrCreate(d, name, base, flag, perm)
	if err != nil {
		return nil, fail("open", name, err)
	}
	return w, nil
}

func (u *Upper) openOrCreate(d *dir, name overlay.Name, base string, flag overlay.OpenFlag, perm overlay.Perm) (*writer, error) {
	for {
		if flag&overlay.Create != 0 && base != "." {
			w, err := u.create(d, name, base, flag, perm)
			if !is(err, unix.EEXIST) || flag&overlay.Excl != 0 {
				return w, err
			}
		}
		w, err := u.openOld(d, base, flag)
		if is(err, unix.ENOENT) && flag&overlay.Create != 0 {
			continue // removed meanwhile
		}
		return w, err
	}
}

// kernelFlags returns flag as open(2) takes it, without what makes or cuts.
func kernelFlags(flag overlay.OpenFlag) int {
	flags := unix.O_RDWR
	if flag&overlay.Append != 0 {
		flags |= unix.O_APPEND
	}
	if flag&overlay.SyncData != 0 {
		flags |= unix.O_SYNC
	}
	if flag&overlay.Direct != 0 {
		flags |= unix.O_DIRECT
	}
	return flags
}

// openOld opens the file base in d, which must exist.
func (u *Upper) openOld(d *dir, base string, flag overlay.OpenFlag) (*writer, error) {
	st, err := u.regular(d, base)
	if err != nil {
		return nil, err
	}
	const untrue = overlay.Truncate | overlay.SyncData | overlay.Direct
	if flag&untrue != 0 {
		if err := u.settle(d, base, st.Ino); err != nil {
			return nil, err
		}
	}
	flags := kernelFlags(flag)
	if flag&overlay.Truncate != 0 {
		flags |= unix.O_TRUNC
		if err := u.step("open O_TRUNC"); err != nil {
			return nil, err
		}
	}
	fd, err := u.openFile(d, base, flags)
	if is(err, unix.EACCES) { // an owner who may not read the file may still write it
		fd, err = u.openFile(d, base, flags&^unix.O_RDWR|unix.O_WRONLY)
	}
	if err != nil {
		return nil, err
	}
	return &writer{reader: reader{t: u.tree, fd: fd, marked: u.impure(d)}, u: u, ino: st.Ino}, nil
}

// create makes the file name, base in d; EEXIST if there is one.
func (u *Upper) create(d *dir, name overlay.Name, base string, flag overlay.OpenFlag, perm overlay.Perm) (*writer, error) {
	b, err := u.birthIn(d)
	if err != nil {
		return nil, err
	}
	mu := u.lock(name.Dir())
	defer mu.Unlock()
	var w *writer
	made := func(at int, base string) (err error) {
		w, err = u.createAt(at, base, b, flag, perm)
		return err
	}
	err = u.make(d, base, b, unix.S_IFREG, made)
	if err != nil && w != nil {
		w.Close()
		return nil, err
	}
	return w, err
}

// createAt makes the file base in the directory at, which has it inherit b.
func (u *Upper) createAt(at int, base string, b *birth, flag overlay.OpenFlag, perm overlay.Perm) (*writer, error) {
	if err := u.step("create"); err != nil {
		return nil, err
	}
	flags := kernelFlags(flag) | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := u.openNew(at, base, flags, b.mode(perm))
	if err != nil {
		return nil, err
	}
	if err := u.own(at, base, b, perm, unix.S_IFREG); err != nil {
		unix.Close(fd)
		unix.Unlinkat(at, base, 0)
		return nil, err
	}
	return &writer{reader: reader{t: u.tree, fd: fd}, u: u}, nil
}

// openNew makes a file; it gives up cached directories where descriptors run
// out.
func (u *Upper) openNew(at int, base string, flags int, mode uint32) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat(at, base, flags, mode)
		return err
	})
	if is(err, unix.EMFILE, unix.ENFILE) && u.cache.shrink() {
		fd, err = unix.Openat(at, base, flags, mode)
	}
	return fd, err
}

// Mkdir implements overlay.Layer.
func (u *Upper) Mkdir(_ context.Context, name overlay.Name, perm overlay.Perm) error {
	return u.makeNode("mkdir", name, perm, unix.S_IFDIR, func(at int, base string, mode uint32) error {
		return unix.Mkdirat(at, base, mode)
	})
}

// Symlink implements overlay.Layer.
func (u *Upper) Symlink(_ context.Context, target string, name overlay.Name, perm overlay.Perm) error {
	return u.makeNode("symlink", name, perm, unix.S_IFLNK, func(at int, base string, _ uint32) error {
		return unix.Symlinkat(target, at, base)
	})
}

// Mknod implements overlay.Noder.
func (u *Upper) Mknod(_ context.Context, name overlay.Name, typ uint32, rdev uint64, perm overlay.Perm) error {
	if typ == overlay.TypeChar && rdev == 0 {
		return fail("mknod", name, unix.EPERM)
	}
	return u.makeNode("mknod", name, perm, typ, func(at int, base string, mode uint32) error {
		return unix.Mknodat(at, base, typ|mode, int(rdev))
	})
}

// makeNode makes name, a file of type typ, by way of node.
func (u *Upper) makeNode(op string, name overlay.Name, perm overlay.Perm, typ uint32, node func(at int, base string, mode uint32) error) error {
	d, base, err := u.parent(name)
	if err != nil {
		return fail(op, name, err)
	}
	defer u.cache.put(d)
	if base == "." {
		return fail(op, name, unix.EEXIST)
	}
	b, err := u.birthIn(d)
	if err != nil {
		return fail(op, name, err)
	}
	mu := u.lock(name.Dir())
	defer mu.Unlock()
	err = u.make(d, base, b, typ, func(at int, base string) error {
		if err := u.step(op); err != nil {
			return err
		}
		if err := node(at, base, b.mode(perm)); err != nil {
			return err
		}
		if err := u.own(at, base, b, perm, typ); err != nil {
			unix.Unlinkat(at, base, rmFlag(typ))
			return err
		}
		return nil
	})
	if err != nil {
		return fail(op, name, err)
	}
	return nil
}

// rmFlag returns what unlinkat needs to remove a file of type typ.
func rmFlag(typ uint32) int {
	if typ == unix.S_IFDIR {
		return unix.AT_REMOVEDIR
	}
	return 0
}
