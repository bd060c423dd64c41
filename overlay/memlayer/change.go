package memlayer

import (
	"context"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// OpenFile implements overlay.Layer.
func (l *Layer) OpenFile(_ context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.find("open", name)
	switch {
	case errnoOf(err) == syscall.ENOENT && flag&overlay.Create != 0:
		if n, err = l.create("open", name, overlay.TypeReg, perm); err != nil {
			return nil, err
		}
		return l.open(name, n, flag), nil
	case err != nil:
		return nil, err
	case flag&overlay.Create != 0 && flag&overlay.Excl != 0:
		return nil, overlay.PathError("open", name, syscall.EEXIST)
	}
	if err := regular("open", name, n); err != nil {
		return nil, err
	}
	if flag&overlay.Truncate != 0 {
		l.used -= int64(n.data.truncate(0)) * pageSize
		l.modified(n)
	}
	return l.open(name, n, flag), nil
}

// create makes a new node of type typ at name, which must not exist.
//
// Preconditions: l.mu is held.
func (l *Layer) create(op string, name overlay.Name, typ uint32, perm overlay.Perm) (*node, error) {
	dir, base, err := l.vacant(op, name)
	if err != nil {
		return nil, err
	}
	n := l.born(dir, typ, perm)
	if typ == overlay.TypeDir {
		n.opaque = dir.children[base] == whiteout
	}
	l.put(dir, base, n)
	return n, nil
}

// vacant returns the directory of name, which must not hold a file of the name.
//
// Preconditions: l.mu is held.
func (l *Layer) vacant(op string, name overlay.Name) (*node, string, error) {
	if name == overlay.Root {
		return nil, "", overlay.PathError(op, name, syscall.EEXIST)
	}
	dir, base, err := l.findParent(op, name)
	if err != nil {
		return nil, "", err
	}
	if n := dir.children[base]; n != nil && n != whiteout {
		return nil, "", overlay.PathError(op, name, syscall.EEXIST)
	}
	if dir.names == 0 {
		return nil, "", overlay.PathError(op, name, syscall.ENOENT)
	}
	return dir, base, nil
}

// born returns a new node as it is made in the directory dir.
func (l *Layer) born(dir *node, typ uint32, perm overlay.Perm) *node {
	n := newNode(typ | perm.Mode&overlay.ModeMask)
	n.uid, n.gid = perm.UID, perm.GID
	if dir.mode&overlay.ModeSetGID != 0 {
		n.gid = dir.gid
		if typ == overlay.TypeDir {
			n.mode |= overlay.ModeSetGID
		}
	}
	if typ != overlay.TypeLink && !n.inheritACL(dir) {
		n.mode &^= perm.Umask & 0o777
	}
	return n
}

// Mkdir implements overlay.Layer.
func (l *Layer) Mkdir(_ context.Context, name overlay.Name, perm overlay.Perm) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.create("mkdir", name, overlay.TypeDir, perm)
	return err
}

// Symlink implements overlay.Layer.
func (l *Layer) Symlink(_ context.Context, target string, name overlay.Name, perm overlay.Perm) error {
	if target == "" {
		return overlay.PathError("symlink", name, syscall.ENOENT)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	perm.Mode, perm.Umask = 0o777, 0
	n, err := l.create("symlink", name, overlay.TypeLink, perm)
	if err != nil {
		return err
	}
	n.target = target
	return nil
}

// Mknod implements overlay.Noder.
func (l *Layer) Mknod(_ context.Context, name overlay.Name, typ uint32, rdev uint64, perm overlay.Perm) error {
	switch typ {
	case overlay.TypeFIFO, overlay.TypeSock:
		rdev = 0
	case overlay.TypeChar, overlay.TypeBlock:
		if typ == overlay.TypeChar && rdev == 0 {
			return overlay.PathError("mknod", name, syscall.EPERM)
		}
	default:
		return overlay.PathError("mknod", name, syscall.EINVAL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.create("mknod", name, typ, perm)
	if err != nil {
		return err
	}
	n.rdev = rdev
	return nil
}

// Tmpfile implements overlay.Tmpfiler.
func (l *Layer) Tmpfile(_ context.Context, dir overlay.Name, perm overlay.Perm) (overlay.WriteHandle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := l.findDir("tmpfile", dir)
	if err != nil {
		return nil, err
	}
	return l.open(dir, l.born(d, overlay.TypeReg, perm), 0), nil
}

// LinkHandle implements overlay.Tmpfiler.
func (l *Layer) LinkHandle(_ context.Context, wh overlay.WriteHandle, newname overlay.Name) error {
	h, ok := overlay.As[*handle](wh)
	if !ok || h.l != l {
		return overlay.PathError("link", newname, syscall.EINVAL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, base, err := l.vacant("link", newname)
	if err != nil {
		return err
	}
	l.put(dir, base, h.n)
	h.n.ctime = l.now()
	return nil
}

// Link implements overlay.Linker.
func (l *Layer) Link(_ context.Context, oldname, newname overlay.Name) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.find("link", oldname)
	if err != nil {
		return err
	}
	if n.kind() == overlay.TypeDir {
		return overlay.PathError("link", oldname, syscall.EPERM)
	}
	dir, base, err := l.vacant("link", newname)
	if err != nil {
		return err
	}
	l.put(dir, base, n)
	n.ctime = l.now()
	l.tellNode(n)
	return nil
}

// Remove implements overlay.Layer.
func (l *Layer) Remove(_ context.Context, name overlay.Name) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, base, err := l.removable("remove", name)
	if err != nil {
		return err
	}
	if n := dir.children[base]; n == nil || n == whiteout {
		return overlay.PathError("remove", name, syscall.ENOENT)
	}
	l.take(dir, base)
	return nil
}

// removable returns the directory of name, at which nothing may be but a file
// or an empty directory.
//
// Preconditions: l.mu is held.
func (l *Layer) removable(op string, name overlay.Name) (*node, string, error) {
	if name == overlay.Root {
		return nil, "", overlay.PathError(op, name, syscall.EBUSY)
	}
	dir, base, err := l.findParent(op, name)
	if err != nil {
		return nil, "", err
	}
	if n := dir.children[base]; n != nil && n.kind() == overlay.TypeDir && !n.empty() {
		return nil, "", overlay.PathError(op, name, syscall.ENOTEMPTY)
	}
	return dir, base, nil
}
