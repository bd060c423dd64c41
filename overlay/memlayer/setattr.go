package memlayer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// SetAttr implements overlay.Layer.
func (l *Layer) SetAttr(_ context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.find("setattr", name)
	if err != nil {
		return overlay.Attr{}, err
	}
	return l.setAttr(name, n, set)
}

// setAttr changes attributes of n.
//
// Preconditions: l.mu is held.
func (l *Layer) setAttr(name overlay.Name, n *node, set overlay.SetAttr) (overlay.Attr, error) {
	if set.Valid&overlay.SetSize != 0 {
		if err := regular("truncate", name, n); err != nil {
			return overlay.Attr{}, err
		}
		if set.Size < 0 {
			return overlay.Attr{}, overlay.PathError("truncate", name, syscall.EINVAL)
		}
	}
	n.ctime = l.now()
	if set.Valid&overlay.ClearPrivileges != 0 {
		n.clearPrivileges()
	}
	if set.Valid&overlay.SetSize != 0 {
		l.used -= int64(n.data.truncate(set.Size)) * pageSize
		n.mtime = n.ctime
	}
	if set.Valid&overlay.SetUID != 0 {
		n.uid = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		n.gid = set.GID
	}
	if set.Valid&overlay.SetMode != 0 && n.kind() != overlay.TypeLink {
		n.mode = n.kind() | set.Mode&overlay.ModeMask
		n.modeToACL()
	}
	n.setTimes(set)
	l.tellNode(n)
	return l.attr(n), nil
}

// setTimes sets the times of n that set names; n.ctime is the clock's.
func (n *node) setTimes(set overlay.SetAttr) {
	if set.Valid&overlay.SetAtime != 0 {
		n.atime = set.Atime.Round(0)
	}
	if set.Valid&overlay.SetMtime != 0 {
		n.mtime = set.Mtime.Round(0)
	}
	if set.Valid&overlay.SetAtimeNow != 0 {
		n.atime = n.ctime
	}
	if set.Valid&overlay.SetMtimeNow != 0 {
		n.mtime = n.ctime
	}
}

// clearPrivileges is overlay.ClearPrivileges.
func (n *node) clearPrivileges() {
	n.mode &^= overlay.ModeSetUID
	if n.mode&0o010 != 0 && n.kind() == overlay.TypeReg {
		n.mode &^= overlay.ModeSetGID
	}
	delete(n.xattrs, "security.capability")
}

// Flags of setxattr(2).
const (
	xattrCreate  = 1
	xattrReplace = 2
)

// Getxattr implements overlay.Xattrer.
func (l *Layer) Getxattr(_ context.Context, name overlay.Name, attr string) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.findXattr("getxattr", name, attr)
	if err != nil {
		return nil, err
	}
	value, ok := n.xattrs[attr]
	if !ok {
		return nil, overlay.PathError("getxattr", name, syscall.ENODATA)
	}
	return slices.Clone(value), nil
}

// findXattr finds the node of name, and refuses classes that do not exist.
//
// Preconditions: l.mu is held, shared or not.
func (l *Layer) findXattr(op string, name overlay.Name, attr string) (*node, error) {
	n, err := l.find(op, name)
	if err != nil {
		return nil, err
	}
	class, rest, _ := strings.Cut(attr, ".")
	switch class {
	case "user":
		if k := n.kind(); k != overlay.TypeReg && k != overlay.TypeDir {
			return nil, overlay.PathError(op, name, syscall.EPERM)
		}
	case "trusted", "security":
	case "system":
		if attr != accessACL && attr != defaultACL {
			return nil, overlay.PathError(op, name, syscall.ENOTSUP)
		}
	default:
		return nil, overlay.PathError(op, name, syscall.ENOTSUP)
	}
	if strings.HasPrefix(rest, "overlay.") {
		return nil, overlay.PathError(op, name, syscall.ENOTSUP)
	}
	return n, nil
}

// Listxattr implements overlay.Xattrer. The names ascend.
func (l *Layer) Listxattr(_ context.Context, name overlay.Name) ([]string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.find("listxattr", name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.xattrs)), nil
}

// Setxattr implements overlay.XattrSetter.
func (l *Layer) Setxattr(_ context.Context, name overlay.Name, attr string, value []byte, flags int) error {
	if len(attr) > 255 {
		return overlay.PathError("setxattr", name, syscall.ERANGE)
	}
	if len(value) > 1<<16 {
		return overlay.PathError("setxattr", name, syscall.E2BIG)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.findXattr("setxattr", name, attr)
	if err != nil {
		return err
	}
	_, have := n.xattrs[attr]
	switch {
	case have && flags&xattrCreate != 0:
		return overlay.PathError("setxattr", name, syscall.EEXIST)
	case !have && flags&xattrReplace != 0:
		return overlay.PathError("setxattr", name, syscall.ENODATA)
	}
	if attr == accessACL || attr == defaultACL {
		err = n.setACL(name, attr, value)
	} else {
		n.setXattr(attr, value)
	}
	if err == nil {
		n.ctime = l.now()
		l.tellNode(n)
	}
	return err
}

// setXattr sets attr to a copy of value.
func (n *node) setXattr(attr string, value []byte) {
	if n.xattrs == nil {
		n.xattrs = make(map[string][]byte)
	}
	n.xattrs[attr] = append([]byte{}, value...)
}

// Removexattr implements overlay.XattrSetter.
func (l *Layer) Removexattr(_ context.Context, name overlay.Name, attr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.findXattr("removexattr", name, attr)
	if err != nil {
		return err
	}
	if _, ok := n.xattrs[attr]; !ok {
		return overlay.PathError("removexattr", name, syscall.ENODATA)
	}
	delete(n.xattrs, attr)
	n.ctime = l.now()
	l.tellNode(n)
	return nil
}
