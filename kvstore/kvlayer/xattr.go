package kvlayer

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Limits of extended attributes: of a value (E2BIG), and of all that a file
// has (ENOSPC).
const (
	maxXattrValue = 64 << 10
	maxXattrs     = 128 << 10
)

const (
	xattrCreate  = 1
	xattrReplace = 2

	// enodata is what Linux calls ENODATA; other systems number it otherwise,
	// or do not have it.
	enodata = syscall.Errno(61)
)

// checkXattr returns ENOTSUP for a name of no class, and for names that belong
// to layers.
func checkXattr(attr string) error {
	class, rest, ok := strings.Cut(attr, ".")
	switch {
	case !ok || rest == "", strings.HasPrefix(rest, "overlay."):
		return syscall.ENOTSUP
	}
	switch class {
	case "user", "trusted", "security":
		return nil
	}
	if attr == aclAccess || attr == aclDefault {
		return nil
	}
	return syscall.ENOTSUP
}

// xattr returns the value of attr, which must not be changed.
func (r *record) xattr(attr string) (value []byte, ok bool) {
	for _, x := range r.xattrs {
		if x.Name == attr {
			return x.Value, true
		}
	}
	return nil, false
}

// putXattr sets attr in r, which must not be shared. Attributes are sorted.
func (r *record) putXattr(attr string, value []byte) {
	i, found := slices.BinarySearchFunc(r.xattrs, attr, func(x overlay.Xattr, attr string) int {
		return strings.Compare(x.Name, attr)
	})
	if !found {
		r.xattrs = slices.Insert(r.xattrs, i, overlay.Xattr{Name: attr})
	}
	r.xattrs[i].Value = bytes.Clone(value)
}

// dropXattr removes attr, and reports whether there was one.
func (r *record) dropXattr(attr string) bool {
	n := len(r.xattrs)
	r.xattrs = slices.DeleteFunc(r.xattrs, func(x overlay.Xattr) bool { return x.Name == attr })
	return len(r.xattrs) < n
}

// Getxattr implements overlay.Xattrer.
func (l *Layer) Getxattr(ctx context.Context, name overlay.Name, attr string) ([]byte, error) {
	r, err := l.newest(ctx, "getxattr", name)
	if err != nil {
		return nil, pathError("getxattr", name, err)
	}
	return r.getxattr(name, attr)
}

func (r *record) getxattr(name overlay.Name, attr string) ([]byte, error) {
	if err := checkXattr(attr); err != nil {
		return nil, pathError("getxattr", name, err)
	}
	value, ok := r.xattr(attr)
	if !ok {
		return nil, overlay.PathError("getxattr", name, enodata)
	}
	return bytes.Clone(value), nil
}

// Listxattr implements overlay.Xattrer.
func (l *Layer) Listxattr(ctx context.Context, name overlay.Name) ([]string, error) {
	r, err := l.newest(ctx, "listxattr", name)
	if err != nil {
		return nil, pathError("listxattr", name, err)
	}
	return r.listxattr(), nil
}

func (r *record) listxattr() []string {
	names := make([]string, 0, len(r.xattrs))
	for _, x := range r.xattrs {
		names = append(names, x.Name)
	}
	return names
}

// Setxattr implements overlay.XattrSetter. An access ACL also sets the
// permission bits, and is not kept if these say all of it.
func (l *Layer) Setxattr(ctx context.Context, name overlay.Name, attr string, value []byte, flags int) error {
	if err := checkXattr(attr); err != nil {
		return pathError("setxattr", name, err)
	}
	if len(value) > maxXattrValue {
		return overlay.PathError("setxattr", name, syscall.E2BIG)
	}
	return l.change(ctx, "setxattr", name, func(t *tx) error {
		found, err := find(ctx, t, name)
		if err != nil {
			return err
		}
		_, had := found.xattr(attr)
		switch {
		case had && flags&xattrCreate != 0:
			return syscall.EEXIST
		case !had && flags&xattrReplace != 0:
			return enodata
		}
		r, err := t.edit(found.ino)
		if err != nil {
			return err
		}
		return t.setxattr(r, attr, value)
	})
}

// setxattr sets attr of r, which the tx edits.
func (t *tx) setxattr(r *record, attr string, value []byte) error {
	switch attr {
	case aclAccess:
		if err := r.setAccessACL(value); err != nil {
			return err
		}
	case aclDefault:
		if err := r.setDefaultACL(value); err != nil {
			return err
		}
	default:
		r.putXattr(attr, value)
	}
	if r.xattrBytes() > maxXattrs {
		return syscall.ENOSPC
	}
	r.ctime = t.now
	t.touched(r)
	return nil
}

// xattrBytes is the space that counts towards maxXattrs.
func (r *record) xattrBytes() (n int) {
	for _, x := range r.xattrs {
		n += len(x.Name) + len(x.Value)
	}
	return n
}

// Removexattr implements overlay.XattrSetter.
func (l *Layer) Removexattr(ctx context.Context, name overlay.Name, attr string) error {
	if err := checkXattr(attr); err != nil {
		return pathError("removexattr", name, err)
	}
	return l.change(ctx, "removexattr", name, func(t *tx) error {
		found, err := find(ctx, t, name)
		if err != nil {
			return err
		}
		if _, had := found.xattr(attr); !had {
			return enodata
		}
		r, err := t.edit(found.ino)
		if err != nil {
			return err
		}
		r.dropXattr(attr)
		r.ctime = t.now
		t.touched(r)
		return nil
	})
}
