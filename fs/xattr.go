//go:build linux

package fs

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// The attributes that hold a file's ACLs, and the one with its capabilities.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
	capability = "security.capability"
)

// noAttr returns what to answer where attr cannot exist: the kernel takes
// EOPNOTSUPP for an ACL as an error of the access it is checking.
func noAttr(attr string) fuse.Status {
	if attr == aclAccess || attr == aclDefault || attr == capability {
		return fuse.ENODATA
	}
	return eopnotsupp
}

// GetXAttr reads an extended attribute.
func (f *FS) GetXAttr(cancel <-chan struct{}, in *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	n := f.table.get(in.NodeId)
	switch {
	case n == nil:
		return 0, estale
	case f.can.xattr == nil:
		return 0, noAttr(attr)
	}
	lacks, seen := n.lacks(attr)
	if lacks {
		return 0, fuse.ENODATA
	}
	path, h, st := f.byNode(n)
	if st == fuse.ENOENT {
		return f.removedXattr(n, attr, dest)
	}
	if !st.Ok() {
		return 0, st
	}
	defer h.unlock()
	value, err := f.can.xattr.Getxattr(request(cancel), path, attr)
	if err != nil {
		st := f.status("getxattr", err)
		if st == eopnotsupp {
			st = noAttr(attr)
		}
		if st == fuse.ENODATA && attr == aclAccess {
			n.bared(seen)
		}
		return 0, st
	}
	return answer(dest, value)
}

// lacks reports whether n is known not to have attr: one of the two that the
// kernel asks for most, security.capability at the first write to each new file
// and the ACL of the mount's root, which it does not keep, for each path. seen
// is for bared.
func (n *node) lacks(attr string) (lacks bool, seen uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := attr == capability && n.told.plain || attr == aclAccess && n.told.bare
	return known && n.told.source == overlay.Exclusive, n.told.suspected
}

// bared notes that n was found to have no access ACL, unless that may have
// changed since seen.
func (n *node) bared(seen uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told.bare = n.told.source == overlay.Exclusive && n.told.suspected == seen
}

// answer copies value to dest, or tells its size.
func answer(dest, value []byte) (uint32, fuse.Status) {
	if len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

// ListXAttr lists the names of the extended attributes.
func (f *FS) ListXAttr(cancel <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n := f.table.get(in.NodeId)
	switch {
	case n == nil:
		return 0, estale
	case f.can.xattr == nil:
		return 0, fuse.OK
	}
	path, h, st := f.byNode(n)
	if st == fuse.ENOENT {
		return 0, fuse.OK
	}
	if !st.Ok() {
		return 0, st
	}
	defer h.unlock()
	names, err := f.can.xattr.Listxattr(request(cancel), path)
	if err != nil {
		return 0, f.status("listxattr", err)
	}
	if in.Uid != 0 { // as on other file systems: for CAP_SYS_ADMIN alone
		names = slices.DeleteFunc(names, func(s string) bool { return strings.HasPrefix(s, "trusted.") })
	}
	if len(names) == 0 {
		return 0, fuse.OK
	}
	return answer(dest, []byte(strings.Join(names, "\x00")+"\x00"))
}

// SetXAttr sets an extended attribute. Setting an access ACL changes the mode;
// the kernel asks for it afterwards.
func (f *FS) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, value []byte) fuse.Status {
	ctx := request(cancel)
	return f.changeXattr(ctx, in.NodeId, func(path overlay.Name) error {
		if err := f.can.xattrs.Setxattr(ctx, path, attr, value, int(in.Flags)); err != nil {
			return err
		}
		if in.SetXAttrFlags&fuse.SETXATTR_ACL_KILL_SGID == 0 || attr != aclAccess {
			return nil
		}
		return f.clearSGID(ctx, path)
	})
}

// clearSGID takes the set-group-id bit from the file at path.
func (f *FS) clearSGID(ctx request, path overlay.Name) error {
	a, err := f.layer.Lstat(ctx, path)
	if err != nil || a.Mode&overlay.ModeSetGID == 0 {
		return err
	}
	_, err = f.layer.SetAttr(ctx, path, overlay.SetAttr{
		Valid: overlay.SetMode,
		Mode:  a.Mode & overlay.ModeMask &^ overlay.ModeSetGID,
	})
	return err
}

// RemoveXAttr removes an extended attribute.
func (f *FS) RemoveXAttr(cancel <-chan struct{}, in *fuse.InHeader, attr string) fuse.Status {
	ctx := request(cancel)
	return f.changeXattr(ctx, in.NodeId, func(path overlay.Name) error {
		return f.can.xattrs.Removexattr(ctx, path, attr)
	})
}

// changeXattr calls fn, which changes an attribute of the file at path.
func (f *FS) changeXattr(ctx request, id uint64, fn func(path overlay.Name) error) fuse.Status {
	if st := f.readOnly(); !st.Ok() {
		return st
	}
	n := f.table.get(id)
	switch {
	case n == nil:
		return estale
	case f.can.xattrs == nil:
		return eopnotsupp
	}
	if n.typ == overlay.TypeReg && n.source() != overlay.Exclusive {
		f.prepare(ctx, n)
	}
	path, h, st := f.byNode(n)
	if !st.Ok() {
		return st
	}
	defer h.unlock()
	err := fn(path)
	n.suspect()
	if err != nil {
		return f.status("setxattr", err)
	}
	f.refresh(ctx, n, path)
	f.changedSource(ctx, n, path)
	return fuse.OK
}

// changedSource notes that a change by path may have copied n's file up.
func (f *FS) changedSource(ctx request, n *node, path overlay.Name) {
	if n.source() == overlay.Exclusive {
		return
	}
	a, err := f.layer.Lstat(ctx, path)
	if err != nil || !n.is(&a) {
		return
	}
	n.mu.Lock()
	n.told.source = a.Source
	n.mu.Unlock()
}

// removedXattr reads an attribute of a removed file from its open file.
func (f *FS) removedXattr(n *node, attr string, dest []byte) (uint32, fuse.Status) {
	fl := n.borrow()
	if fl == nil || strings.Contains(attr, ".overlay.") {
		return 0, fuse.ENODATA
	}
	defer fl.put()
	host, ok := overlay.As[overlay.Filer](fl.Handle)
	if !ok || host.FD() < 0 {
		return 0, fuse.ENODATA
	}
	return fgetxattr(host.FD(), attr, dest)
}

// fgetxattr reads an attribute of an open host file.
func fgetxattr(fd int, attr string, dest []byte) (uint32, fuse.Status) {
	size, err := unix.Fgetxattr(fd, attr, dest)
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return 0, fuse.Status(errno)
	}
	return uint32(size), fuse.OK
}
