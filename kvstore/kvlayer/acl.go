package kvlayer

import (
	"encoding/binary"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// The attributes that hold ACLs, in the kernel's encoding: a version and
// entries of tag, permission and id, all little endian.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"

	aclVersion   = 2
	aclHeader    = 4
	aclEntrySize = 8
)

// The tags of entries. They are in ascending order in an ACL.
const (
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
)

// An aclEntry is what an ACL says of one user or group, or of a class of them.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// decodeACL returns the entries of an ACL: EINVAL if it is none.
func decodeACL(b []byte) ([]aclEntry, error) {
	if len(b) < aclHeader || (len(b)-aclHeader)%aclEntrySize != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, syscall.EINVAL
	}
	var acl []aclEntry
	for b := b[aclHeader:]; len(b) > 0; b = b[aclEntrySize:] {
		acl = append(acl, aclEntry{
			tag: binary.LittleEndian.Uint16(b), perm: binary.LittleEndian.Uint16(b[2:]), id: binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return acl, checkACL(acl)
}

// checkACL returns EINVAL unless acl has one entry of each class of its own,
// and a mask if it names users or groups.
func checkACL(acl []aclEntry) error {
	var count [aclOther + 1]int
	for i, e := range acl {
		switch e.tag {
		case aclUserObj, aclUser, aclGroupObj, aclGroup, aclMask, aclOther:
		default:
			return syscall.EINVAL
		}
		if e.perm > 7 || i > 0 && e.tag < acl[i-1].tag {
			return syscall.EINVAL
		}
		count[e.tag]++
	}
	named := count[aclUser]+count[aclGroup] > 0
	if count[aclUserObj] != 1 || count[aclGroupObj] != 1 || count[aclOther] != 1 ||
		count[aclMask] > 1 || named && count[aclMask] == 0 {
		return syscall.EINVAL
	}
	return nil
}

// encodeACL is the inverse of decodeACL.
func encodeACL(acl []aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, aclHeader+len(acl)*aclEntrySize), aclVersion)
	for _, e := range acl {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// classes returns pointers to the permissions of owner, group class (the mask
// if there is one) and others.
func classes(acl []aclEntry) (user, group, other *uint16) {
	for i := range acl {
		switch e := &acl[i]; e.tag {
		case aclUserObj:
			user = &e.perm
		case aclGroupObj:
			if group == nil {
				group = &e.perm
			}
		case aclMask:
			group = &e.perm
		case aclOther:
			other = &e.perm
		}
	}
	return user, group, other
}

// setAccessACL makes value the access ACL of r; an empty one is none.
func (r *record) setAccessACL(value []byte) error {
	if r.typ() == overlay.TypeLink {
		return syscall.ENOTSUP
	}
	if len(value) <= aclHeader {
		r.dropXattr(aclAccess)
		return nil
	}
	acl, err := decodeACL(value)
	if err != nil {
		return err
	}
	r.putACL(acl)
	return nil
}

// putACL gives r the access ACL acl: the permission bits, and the attribute
// unless they say all of it.
func (r *record) putACL(acl []aclEntry) {
	user, group, other := classes(acl)
	r.mode = r.mode&^0o777 | uint32(*user)<<6 | uint32(*group)<<3 | uint32(*other)
	if len(acl) == 3 {
		r.dropXattr(aclAccess)
		return
	}
	r.putXattr(aclAccess, encodeACL(acl))
}

// setDefaultACL makes value the default ACL of r; an empty one is none.
func (r *record) setDefaultACL(value []byte) error {
	if len(value) <= aclHeader {
		r.dropXattr(aclDefault)
		return nil
	}
	if !r.isDir() {
		return syscall.EACCES
	}
	if _, err := decodeACL(value); err != nil {
		return err
	}
	r.putXattr(aclDefault, value)
	return nil
}

// chmodACL has the access ACL of r follow its permission bits.
func (r *record) chmodACL() {
	value, ok := r.xattr(aclAccess)
	if !ok {
		return
	}
	acl, err := decodeACL(value)
	if err != nil {
		return
	}
	user, group, other := classes(acl)
	*user, *group, *other = uint16(r.mode>>6&7), uint16(r.mode>>3&7), uint16(r.mode&7)
	r.putACL(acl)
}

// inherit gives the new file r what its directory passes on: the group where
// that is set-group-id, and permissions by its default ACL, or by the umask.
func inherit(r, parent *record, perm overlay.Perm) {
	if parent.mode&overlay.ModeSetGID != 0 {
		r.gid = parent.gid
		if r.isDir() {
			r.mode |= overlay.ModeSetGID
		}
	}
	if r.typ() == overlay.TypeLink {
		return
	}
	value, ok := parent.xattr(aclDefault)
	acl, err := decodeACL(value)
	if !ok || err != nil {
		r.mode &^= perm.Umask & 0o777
		return
	}
	user, group, other := classes(acl)
	*user &= uint16(r.mode >> 6 & 7)
	*group &= uint16(r.mode >> 3 & 7)
	*other &= uint16(r.mode & 7)
	r.putACL(acl)
	if r.isDir() {
		r.putXattr(aclDefault, value)
	}
}
