package memlayer

import (
	"context"
	"errors"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Rename implements overlay.Layer. WriteBack means nothing to memory.
func (l *Layer) Rename(_ context.Context, oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.plan(oldname, newname)
	if err != nil {
		return err
	}
	if flag&overlay.Exchange != 0 {
		return l.exchange(m, oldname, newname)
	}
	if err := m.check(oldname, newname, flag); err != nil || m.dst == m.src {
		return err
	}
	if m.src.kind() == overlay.TypeDir && m.src.redirect == "" && m.newdir.children[m.newbase] == whiteout {
		m.src.opaque = true
	}
	m.src.names++ // while it has neither name
	l.take(m.olddir, m.oldbase)
	l.put(m.newdir, m.newbase, m.src)
	m.src.names--
	if flag&overlay.LeaveWhiteout != 0 {
		m.olddir.children[m.oldbase] = whiteout
	}
	m.src.ctime = l.now()
	return nil
}

// A move is what a rename is about.
type move struct {
	olddir, newdir   *node
	oldbase, newbase string
	src, dst         *node // dst is nil if there is nothing
}

// plan finds both sides of a rename.
//
// Preconditions: l.mu is held.
func (l *Layer) plan(oldname, newname overlay.Name) (m move, err error) {
	if oldname == overlay.Root || newname == overlay.Root {
		return m, overlay.PathError("rename", oldname, syscall.EBUSY)
	}
	if m.olddir, m.oldbase, err = l.findParent("rename", oldname); err != nil {
		return m, err
	}
	if m.newdir, m.newbase, err = l.findParent("rename", newname); err != nil {
		return m, err
	}
	m.src, m.dst = m.olddir.children[m.oldbase], m.newdir.children[m.newbase]
	if m.src == nil || m.src == whiteout {
		return m, overlay.PathError("rename", oldname, syscall.ENOENT)
	}
	if m.dst == whiteout {
		m.dst = nil
	}
	if newname != oldname && newname.Within(oldname) {
		return m, overlay.PathError("rename", oldname, syscall.EINVAL)
	}
	return m, nil
}

// check returns the error of a rename that is no exchange.
func (m move) check(oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	switch {
	case m.dst == nil:
		return nil
	case flag&overlay.NoReplace != 0:
		return overlay.PathError("rename", newname, syscall.EEXIST)
	case m.dst == m.src:
		return nil
	case oldname.Within(newname):
		return overlay.PathError("rename", newname, syscall.ENOTEMPTY)
	case m.dst.kind() == overlay.TypeDir && m.src.kind() != overlay.TypeDir:
		return overlay.PathError("rename", newname, syscall.EISDIR)
	case m.dst.kind() != overlay.TypeDir && m.src.kind() == overlay.TypeDir:
		return overlay.PathError("rename", newname, syscall.ENOTDIR)
	case m.dst.kind() == overlay.TypeDir && !m.dst.empty():
		return overlay.PathError("rename", newname, syscall.ENOTEMPTY)
	}
	return nil
}

// exchange swaps the two sides of m.
//
// Preconditions: l.mu is held.
func (l *Layer) exchange(m move, oldname, newname overlay.Name) error {
	switch {
	case m.dst == nil:
		return overlay.PathError("rename", newname, syscall.ENOENT)
	case m.dst == m.src:
		return nil
	case oldname.Within(newname):
		return overlay.PathError("rename", oldname, syscall.EINVAL)
	}
	m.olddir.children[m.oldbase], m.newdir.children[m.newbase] = m.dst, m.src
	isDir := func(n *node) int {
		if n.kind() == overlay.TypeDir {
			return 1
		}
		return 0
	}
	m.olddir.subdirs += isDir(m.dst) - isDir(m.src)
	m.newdir.subdirs += isDir(m.src) - isDir(m.dst)
	m.src.ctime, m.dst.ctime = l.now(), l.now()
	l.touch(m.olddir, m.oldbase)
	l.touch(m.newdir, m.newbase)
	return nil
}

// errnoOf returns the errno inside err, 0 if there is none.
func errnoOf(err error) syscall.Errno {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}
