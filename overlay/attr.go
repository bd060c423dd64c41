package overlay

import "time"

// File types and mode bits as Linux has them in st_mode, on every platform.
const (
	TypeMask  = 0o170000
	TypeSock  = 0o140000
	TypeLink  = 0o120000
	TypeReg   = 0o100000
	TypeBlock = 0o060000
	TypeDir   = 0o040000
	TypeChar  = 0o020000
	TypeFIFO  = 0o010000

	ModeSetUID = 0o4000
	ModeSetGID = 0o2000
	ModeSticky = 0o1000
	ModeMask   = 0o7777
)

// A Source says who else may change a file, and so how long the kernel may
// believe what it was told about it.
type Source uint8

const (
	// Exclusive files change through this mount alone.
	Exclusive Source = iota
	// Host files may be changed by programs that do not use the mount.
	Host
	// Store files may be changed by another daemon on the same store.
	Store
)

// An Attr is what lstat tells of a file.
type Attr struct {
	// Dev and Ino name the file itself. Inside a layer Dev is the layer's
	// file system; two files of one layer are one (hard links) if and only if
	// both are equal. An Overlay answers with Dev 0 and an Ino that is unique
	// in the whole tree, the same before and after copy-up and a remount.
	Dev uint64
	Ino uint64

	Mode  uint32 // file type and permission bits, as st_mode
	Nlink uint32
	UID   uint32
	GID   uint32
	Rdev  uint64 // of devices, in Linux' encoding
	Size  int64  // bytes
	// Blocks is the space used, in units of 512 bytes.
	Blocks int64

	Atime time.Time
	Mtime time.Time
	Ctime time.Time

	Source Source

	// Origin is the inode number of the file this one was copied up from, as
	// the Overlay showed it; 0 if there is none. It is shown instead of Ino.
	Origin uint64

	// Version is the store's version of the content of a Store file. It grows
	// with each commit, over deletion, too. 0 for other files.
	Version uint64
}

// Type returns the file type bits of a.Mode.
func (a Attr) Type() uint32 { return a.Mode & TypeMask }

// IsDir reports whether a is of a directory.
func (a Attr) IsDir() bool { return a.Type() == TypeDir }

// IsRegular reports whether a is of a regular file.
func (a Attr) IsRegular() bool { return a.Type() == TypeReg }

// An Entry is a directory's record of a child. Its Type, Ino and Origin are
// those that Lstat of the child would tell, so that d_ino equals st_ino.
type Entry struct {
	Name   string
	Type   uint32 // TypeReg, TypeDir, ...
	Dev    uint64
	Ino    uint64
	Origin uint64
}

// An AttrMask says which fields of a SetAttr count.
type AttrMask uint32

const (
	SetMode AttrMask = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	// SetAtimeNow and SetMtimeNow take the time of the layer's clock; they go
	// without SetAtime and SetMtime.
	SetAtimeNow
	SetMtimeNow
	// ClearPrivileges clears the set-user-id bit, the set-group-id bit of a
	// group-executable file and security.capability, as the kernel does when
	// a file is written or changes owner. It is done first.
	ClearPrivileges
)

// A SetAttr is a change of attributes: the fields in Valid, all or none.
type SetAttr struct {
	Valid AttrMask
	Mode  uint32 // permission bits (ModeMask) only
	UID   uint32
	GID   uint32
	Size  int64
	Atime time.Time
	Mtime time.Time
}

// A Perm is what a new file starts with.
type Perm struct {
	Mode uint32 // permission bits (ModeMask) as the caller asked for them
	// Umask is taken from Mode unless the parent directory has a default ACL,
	// which then takes its place (acl(5)).
	Umask uint32
	// UID and GID are the owner. In a set-group-id directory the group is the
	// directory's, and a new directory is set-group-id, too.
	UID uint32
	GID uint32
}
