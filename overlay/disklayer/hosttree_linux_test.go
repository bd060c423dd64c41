package disklayer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A hostTree is a directory seen through plain system calls: the kernel's own
// overlayfs, when one is mounted there. It answers as the contract of layers
// says where a path that is walked by the kernel would not.
type hostTree struct{ dir string }

var _ overlay.Layer = hostTree{}

// path returns the path of name, and ENOTDIR if it would lead through a link.
func (h hostTree) path(name overlay.Name) (string, error) {
	for dir := name.Dir(); dir != overlay.Root; dir = dir.Dir() {
		if fi, err := os.Lstat(filepath.Join(h.dir, string(dir))); err == nil && !fi.IsDir() {
			return "", overlay.PathError("lookup", name, syscall.ENOTDIR)
		}
	}
	return filepath.Join(h.dir, string(name)), nil
}

func (h hostTree) Lstat(_ context.Context, name overlay.Name) (overlay.Attr, error) {
	path, err := h.path(name)
	if err != nil {
		return overlay.Attr{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return overlay.Attr{}, overlay.PathError("lstat", name, err.(syscall.Errno))
	}
	return overlay.Attr{Dev: st.Dev, Ino: st.Ino, Mode: st.Mode, Nlink: uint32(st.Nlink), Size: st.Size}, nil
}

func (h hostTree) ReadDir(_ context.Context, name overlay.Name) ([]overlay.Entry, error) {
	path, err := h.path(name)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var entries []overlay.Entry
	for _, d := range list {
		a, err := h.Lstat(tbContext, name.Join(d.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, overlay.Entry{Name: d.Name(), Type: a.Type(), Dev: a.Dev, Ino: a.Ino})
	}
	return entries, nil
}

func (h hostTree) Readlink(_ context.Context, name overlay.Name) (string, error) {
	path, err := h.path(name)
	if err != nil {
		return "", err
	}
	return os.Readlink(path)
}

// A hostFile is an open file of a hostTree.
type hostFile struct {
	*os.File
	h    hostTree
	name overlay.Name
}

func (f hostFile) Stat(ctx context.Context) (overlay.Attr, error) { return f.h.Lstat(ctx, f.name) }
func (f hostFile) Flush(context.Context) error                    { return nil }
func (f hostFile) Sync(context.Context) error                     { return f.File.Sync() }
func (f hostFile) SetAttr(ctx context.Context, set overlay.SetAttr) (overlay.Attr, error) {
	return f.h.SetAttr(ctx, f.name, set)
}

func (h hostTree) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	return h.open(ctx, name, os.O_RDONLY, 0, overlay.Perm{})
}

func (h hostTree) OpenFile(ctx context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	return h.open(ctx, name, os.O_RDWR, flag, perm)
}

func (h hostTree) open(ctx context.Context, name overlay.Name, how int, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	path, err := h.path(name)
	if err != nil {
		return nil, err
	}
	a, err := h.Lstat(ctx, name)
	switch {
	case err == nil && flag&overlay.Excl != 0:
		return nil, overlay.PathError("open", name, syscall.EEXIST)
	case err == nil && a.IsDir():
		return nil, overlay.PathError("open", name, syscall.EISDIR)
	case err == nil && !a.IsRegular():
		return nil, overlay.PathError("open", name, syscall.EINVAL)
	}
	if flag&overlay.Create != 0 {
		how |= os.O_CREATE
	}
	f, err := os.OpenFile(path, how, os.FileMode(perm.Mode))
	if err != nil {
		return nil, err
	}
	return hostFile{f, h, name}, nil
}

func (h hostTree) Mkdir(_ context.Context, name overlay.Name, perm overlay.Perm) error {
	path, err := h.path(name)
	return errors.Join(err, os.Mkdir(path, os.FileMode(perm.Mode)))
}

func (h hostTree) Symlink(_ context.Context, target string, name overlay.Name, _ overlay.Perm) error {
	path, err := h.path(name)
	if err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func (h hostTree) Mknod(_ context.Context, name overlay.Name, typ uint32, _ uint64, perm overlay.Perm) error {
	path, err := h.path(name)
	if err != nil {
		return err
	}
	return unix.Mknod(path, typ|perm.Mode, 0)
}

func (h hostTree) Link(_ context.Context, oldname, newname overlay.Name) error {
	from, err := h.path(oldname)
	if err != nil {
		return err
	}
	to, err := h.path(newname)
	if err != nil {
		return err
	}
	return os.Link(from, to)
}

func (h hostTree) Remove(ctx context.Context, name overlay.Name) error {
	path, err := h.path(name)
	if err != nil {
		return err
	}
	if a, err := h.Lstat(ctx, name); err == nil && a.IsDir() {
		return unix.Rmdir(path)
	}
	return unix.Unlink(path)
}

func (h hostTree) Rename(_ context.Context, oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	from, err := h.path(oldname)
	if err != nil {
		return err
	}
	to, err := h.path(newname)
	if err != nil {
		return err
	}
	var how uint
	if flag&overlay.NoReplace != 0 {
		how |= unix.RENAME_NOREPLACE
	}
	if flag&overlay.Exchange != 0 {
		how |= unix.RENAME_EXCHANGE
	}
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, how)
}

func (h hostTree) SetAttr(ctx context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	path, err := h.path(name)
	if err != nil {
		return overlay.Attr{}, err
	}
	a, err := h.Lstat(ctx, name)
	if err != nil {
		return a, err
	}
	if set.Valid&overlay.SetSize != 0 {
		switch {
		case a.IsDir():
			return a, overlay.PathError("truncate", name, syscall.EISDIR)
		case !a.IsRegular():
			return a, overlay.PathError("truncate", name, syscall.EINVAL)
		}
		err = os.Truncate(path, set.Size)
	}
	if err == nil && set.Valid&overlay.SetMode != 0 && a.Type() != overlay.TypeLink {
		err = unix.Chmod(path, set.Mode)
	}
	return a, err
}
