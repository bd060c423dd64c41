package overlay

import (
	"context"
	"errors"
)

// The interfaces below are abilities that a layer or handle may have. Ask for
// one with As, which looks through wrappers.

// A Linker can give a file a second name.
type Linker interface {
	// Link makes newname another name of the file oldname. EXDEV across
	// segments, EPERM for directories, EMLINK at the file system's limit.
	Link(ctx context.Context, oldname, newname Name) error
}

// An Xattrer has extended attributes; access and default ACLs are the
// attributes system.posix_acl_access and _default in the kernel's encoding.
// Attributes named *.overlay.* are the layer's own: never shown or taken.
// ENODATA if there is none of that name, ENOTSUP where the name's class does
// not exist, E2BIG, ENOSPC, ERANGE.
type Xattrer interface {
	Getxattr(ctx context.Context, name Name, attr string) ([]byte, error)
	Listxattr(ctx context.Context, name Name) ([]string, error)
}

// An XattrSetter can change extended attributes.
type XattrSetter interface {
	Xattrer
	// Setxattr sets attr. flags are those of setxattr(2): 0, XATTR_CREATE (1)
	// or XATTR_REPLACE (2).
	Setxattr(ctx context.Context, name Name, attr string, value []byte, flags int) error
	Removexattr(ctx context.Context, name Name, attr string) error
}

// A Noder can make FIFOs, sockets and device nodes.
type Noder interface {
	// Mknod makes name a node of type (TypeFIFO, TypeSock, TypeChar,
	// TypeBlock) and, for devices, number rdev. EPERM without the privilege,
	// and for the character device 0:0, which is a whiteout.
	Mknod(ctx context.Context, name Name, typ uint32, rdev uint64, perm Perm) error
}

// A Tmpfiler can make files without a name (O_TMPFILE).
type Tmpfiler interface {
	// Tmpfile opens a new file that lives in the directory dir's segment and
	// has no name. It is gone with its last handle unless it is linked.
	Tmpfile(ctx context.Context, dir Name, perm Perm) (WriteHandle, error)
	// LinkHandle gives the file open as h the name newname, which must not
	// exist. EINVAL unless h came from this layer.
	LinkHandle(ctx context.Context, h WriteHandle, newname Name) error
}

// A Statfser knows the space of the file system it keeps its files on.
type Statfser interface {
	Statfs(ctx context.Context) (Statfs, error)
}

// A Statfs is what statfs(2) tells.
type Statfs struct {
	Bsize  uint32 // bytes per block
	Blocks uint64
	Bfree  uint64
	Bavail uint64
	Files  uint64
	Ffree  uint64
}

// A Watcher is a layer whose files may change without the mount's doing.
type Watcher interface {
	// Watch has fn called after each such change of the directory name or of
	// a file in it, until stop is called: with the name of the child, or ""
	// for the directory itself and whenever any child may have changed. It
	// covers every change made after Watch returned. fn is called from one
	// goroutine, without a lock held, and must be quick. An error means
	// unwatched (ENOSPC at the kernel's limit); the caller then polls. stop
	// may be called from fn, and more than once.
	Watch(ctx context.Context, name Name, fn func(child string)) (stop func(), err error)
}

// An Identified layer has an identity that outlives the process. It is what
// Copy.Layer holds.
type Identified interface{ LayerID() string }

// Origins opens the file that a Copy names by Layer and Name, for a repair.
type Origins func(ctx context.Context, layer string, name Name) (Handle, error)

// A Recoverer repairs what an unclean stop left behind: a copy-up that a
// power cut cut short is made again, debris in the work area goes.
type Recoverer interface {
	// Recover must be called before any other method but Lstat of the root,
	// once. It returns the
	// names that could not be repaired, because their origin has changed.
	Recover(ctx context.Context, open Origins) (damaged []Name, err error)
}

// A Syncer can make everything it holds durable (syncfs).
type Syncer interface {
	SyncAll(ctx context.Context) error
}

// A Marker tells what it holds at a name and what it says of it in one call,
// of one moment: Lstat and Absence. The error is that of Lstat; the Absence
// counts also with ENOENT.
type Marker interface {
	LstatMarks(ctx context.Context, name Name) (Attr, Absence, error)
}

// A Finder is a Marker that can do without the marks of directories, which may
// cost more than all the rest.
type Finder interface {
	// Find is Lstat, and tells what Absence.Gone says of a name with ENOENT.
	Find(ctx context.Context, name Name) (a Attr, gone bool, err error)
}

// A Pinner is a layer with directories that can be neither removed nor renamed
// (EBUSY).
type Pinner interface{ Pinned(name Name) bool }

// A Devicer is a layer whose files are on several devices: the values that
// Attr.Dev can have, always in the same order. Another layer's files all have
// the Dev of its root, but for what is mounted in it.
type Devicer interface{ Devices() []uint64 }

// A DirSyncer can make the entries of one directory durable, as fsync of a
// directory does, without waiting for the data of other files.
type DirSyncer interface {
	// SyncDir makes every change of the names in the directory name that
	// returned before durable. Errors are those of Lstat, EIO, ENOSPC.
	SyncDir(ctx context.Context, name Name) error
}

// An Indexer is an upper that finds the copy of a lower file with several
// names by the lower file's inode number, so that hard links stay links.
//
// The names of the lower file that were not copied up count: Attr.Nlink of the
// copy, right after the first CopyUp, is Copy.Attr.Nlink, and the copy stays as
// long as such a name may be left, even when the layer holds none.
type Indexer interface {
	// Indexed reports whether the lower file origin (as in Copy.Origin, of a
	// Copy whose Attr.Nlink was over 1) was copied up under another name.
	Indexed(origin uint64) bool
	// LinkIndexed makes name, which must not exist or be recorded as gone
	// (EEXIST), another name of that copy, as a CopyUp of it would; Attr.Nlink
	// stays, since the lower name counted. ENOENT if there is no copy.
	LinkIndexed(ctx context.Context, origin uint64, name Name) error
	// DropIndexed tells that a lower name of origin was whited out without
	// having been copied up: the copy has one name less.
	DropIndexed(ctx context.Context, origin uint64) error
}

// An IndexOpener is an Indexer, perhaps frozen, that opens the copy for reading
// by its origin, whatever names it has. ENOENT if there is none.
type IndexOpener interface {
	Indexed(origin uint64) bool
	OpenIndexed(ctx context.Context, origin uint64) (Handle, error)
}

// A Redirecter is an upper in which a directory that has a lower part can be
// moved in constant time.
type Redirecter interface {
	// SetRedirect records where the lower part of the directory name is: at
	// target, absolute in the layers below; Absence then tells it. Called with
	// the directory's present place before Rename moves it, it changes nothing
	// that is seen. An empty target takes the record away. ENOTDIR if name is
	// not a directory of the layer.
	SetRedirect(ctx context.Context, name, target Name) error
}

// A Checker can look through what it has on disk or in a store.
type Checker interface {
	// Check returns every broken invariant of the layer, joined; nil if all
	// holds. The layer must not be changed meanwhile.
	Check(ctx context.Context) error
}

// A Segmenter is a layer made of parts that fail and lock independently.
type Segmenter interface {
	// Segment returns a small number that is equal for names of one part: 0 for
	// the part that holds the root.
	Segment(name Name) int
}

// A Placer knows which files are in its upper layer: opening one of them for
// writing copies nothing, and leaves it the file that those who have it open
// read.
type Placer interface {
	// InUpper reports whether the file name is in the upper layer. The answer
	// goes from false to true at a copy-up, and back at a freeze. Errors are
	// those of Lstat.
	InUpper(ctx context.Context, name Name) (bool, error)
}

// Abilities of handles.

// A Filer is a handle on a host file. The descriptor is the handle's: do not
// close it, and do not use it after Close.
type Filer interface{ FD() int }

// An Allocator can change a file's allocation, as fallocate(2) does.
type Allocator interface {
	Allocate(ctx context.Context, off, size int64, mode uint32) error
}

// A HoleSeeker finds data and holes: whence is SEEK_DATA (3) or SEEK_HOLE (4).
// ENXIO behind the end.
type HoleSeeker interface {
	SeekHole(ctx context.Context, off int64, whence int) (int64, error)
}

// As returns the first of v and what v wraps (by Unwrap() any) that is a T.
func As[T any](v any) (t T, ok bool) {
	for v != nil {
		if t, ok = v.(T); ok {
			return t, true
		}
		u, wraps := v.(interface{ Unwrap() any })
		if !wraps {
			return t, false
		}
		v = u.Unwrap()
	}
	return t, false
}

// ErrNoAbility is returned where a layer lacks an ability that a call needs.
var ErrNoAbility = errors.ErrUnsupported
