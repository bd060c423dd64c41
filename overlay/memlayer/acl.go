package memlayer

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// The attributes that hold ACLs.
const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
)

// Tags of ACL entries, in the kernel's encoding (posix_acl_xattr.h).
const (
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20

	aclVersion = 2
)

// An aclEntry is an entry of an ACL.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// parseACL reads the kernel's encoding of an ACL. The entries must be those
// and in the order that the kernel accepts.
func parseACL(b []byte) ([]aclEntry, bool) {
	if len(b) < 4 || (len(b)-4)%8 != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, false
	}
	var acl []aclEntry
	var tags uint16
	for b = b[4:]; len(b) > 0; b = b[8:] {
		e := aclEntry{
			tag:  binary.LittleEndian.Uint16(b),
			perm: binary.LittleEndian.Uint16(b[2:]),
			id:   binary.LittleEndian.Uint32(b[4:]),
		}
		once := e.tag&(aclUserObj|aclGroupObj|aclMask|aclOther) != 0
		if e.tag == 0 || e.tag&(e.tag-1) != 0 || e.perm > 7 || (once && tags&e.tag != 0) || tags >= e.tag<<1 {
			return nil, false
		}
		tags |= e.tag
		acl = append(acl, e)
	}
	const must = aclUserObj | aclGroupObj | aclOther
	named := tags&(aclUser|aclGroup) != 0
	ok := tags&must == must && (!named || tags&aclMask != 0) &&
		tags&^(must|aclUser|aclGroup|aclMask) == 0
	return acl, ok
}

// encodeACL is the inverse of parseACL.
func encodeACL(acl []aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range acl {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// aclBits returns pointers to the permissions that the mode's three groups of
// bits stand for: owner, mask (or group, if there is no mask), other.
func aclBits(acl []aclEntry) (bits [3]*uint16) {
	for i := range acl {
		e := &acl[i]
		switch e.tag {
		case aclUserObj:
			bits[0] = &e.perm
		case aclGroupObj:
			if bits[1] == nil {
				bits[1] = &e.perm
			}
		case aclMask:
			bits[1] = &e.perm
		case aclOther:
			bits[2] = &e.perm
		}
	}
	return bits
}

// setACL sets an ACL attribute of n. An access ACL sets the mode, too, and is
// not kept if the mode says all of it.
func (n *node) setACL(name overlay.Name, attr string, value []byte) error {
	acl, ok := parseACL(value)
	switch {
	case n.kind() == overlay.TypeLink:
		return overlay.PathError("setxattr", name, syscall.ENOTSUP)
	case !ok:
		return overlay.PathError("setxattr", name, syscall.EINVAL)
	case attr == defaultACL && n.kind() != overlay.TypeDir:
		return overlay.PathError("setxattr", name, syscall.EACCES)
	case attr == defaultACL:
		n.setXattr(attr, value)
		return nil
	}
	bits := aclBits(acl)
	n.mode = n.mode&^0o777 | uint32(*bits[0])<<6 | uint32(*bits[1])<<3 | uint32(*bits[2])
	if len(acl) == 3 {
		delete(n.xattrs, attr)
		return nil
	}
	n.setXattr(attr, value)
	return nil
}

// modeToACL carries a change of the mode over to the access ACL.
func (n *node) modeToACL() {
	acl, ok := parseACL(n.xattrs[accessACL])
	if !ok {
		return
	}
	bits := aclBits(acl)
	*bits[0] = uint16(n.mode >> 6 & 7)
	*bits[1] = uint16(n.mode >> 3 & 7)
	*bits[2] = uint16(n.mode & 7)
	n.setXattr(accessACL, encodeACL(acl))
}

// inheritACL gives the new node n what dir's default ACL says, and reports
// whether there is one. The bits of n's mode are cut down to what it allows.
func (n *node) inheritACL(dir *node) bool {
	value := dir.xattrs[defaultACL]
	acl, ok := parseACL(value)
	if !ok {
		return false
	}
	if n.kind() == overlay.TypeDir {
		n.setXattr(defaultACL, value)
	}
	acl = slices.Clone(acl)
	mode := n.mode &^ 0o777
	for i, bits := range aclBits(acl) {
		shift := 6 - 3*i
		*bits &= uint16(n.mode >> shift & 7)
		mode |= uint32(*bits) << shift
	}
	n.mode = mode
	if len(acl) > 3 {
		n.setXattr(accessACL, encodeACL(acl))
	}
	return true
}
