package overlay

import (
	"context"
	"io"
)

// A Reader is all that a lower layer has to be: a tree of files that can be
// read. No method follows a symbolic link, not even in the middle of a name:
// there the answer is ENOTDIR.
//
// All methods may be called concurrently. Errors are *fs.PathError about the
// name that was asked for, with a syscall.Errno inside: ENOENT, ENOTDIR,
// EACCES, ELOOP, ENAMETOOLONG, EIO. A name that a layer records as gone
// (whiteout) is ENOENT from Lstat; use Absence to tell the two apart.
type Reader interface {
	// Lstat returns the attributes of name.
	Lstat(ctx context.Context, name Name) (Attr, error)
	// ReadDir returns the entries of the directory name in ascending order of
	// their bytes, without "." and "..", without whiteouts. The slice is the
	// caller's.
	ReadDir(ctx context.Context, name Name) ([]Entry, error)
	// Readlink returns the target of the symbolic link name, unchanged.
	// EINVAL if name is something else.
	Readlink(ctx context.Context, name Name) (string, error)
	// Open opens the regular file name for reading. EISDIR for a directory,
	// EINVAL for everything else that is not a regular file: a layer never
	// opens a FIFO or a device, the kernel does that itself.
	Open(ctx context.Context, name Name) (Handle, error)
}

// An OpenFlag says how OpenFile opens.
type OpenFlag uint32

const (
	Create   OpenFlag = 1 << iota // make the file if it does not exist
	Excl                          // with Create: EEXIST if it exists
	Truncate                      // cut it to 0 bytes
	// Append has every write go to the end of the file as it is then,
	// whatever offset it names.
	Append
	SyncData // every write is durable when it returns (O_DSYNC, O_SYNC)
	Direct   // by-pass the page cache where the layer can (O_DIRECT)
)

// A RenameFlag changes what Rename does.
type RenameFlag uint32

const (
	// NoReplace fails with EEXIST if the new name exists.
	NoReplace RenameFlag = 1 << iota
	// Exchange swaps two existing names in one step.
	Exchange
	// LeaveWhiteout records in the same step that the old name is gone.
	LeaveWhiteout
	// WriteBack has write-back of the source's data begin before the rename,
	// so that a power cut soon after it does not leave an empty file under a
	// name that held a full one.
	WriteBack
)

// A Layer is a tree of files that can be read and changed: what package fs
// mounts. Parents of a new name must exist (ENOENT). Every change is seen by
// each call that begins after it returned, and is one step: another call sees
// the tree before or after it.
//
// Errors besides those of Reader: EEXIST, EISDIR, ENOTEMPTY, EXDEV, EROFS,
// ENOSPC, EDQUOT, EFBIG, EMLINK, EBUSY, EPERM, EINVAL. After an error nothing
// has changed.
type Layer interface {
	Reader
	// OpenFile opens the regular file name for reading and writing, as flag
	// says. perm counts only if the file is made.
	OpenFile(ctx context.Context, name Name, flag OpenFlag, perm Perm) (WriteHandle, error)
	// Mkdir makes the directory name.
	Mkdir(ctx context.Context, name Name, perm Perm) error
	// Symlink makes name a symbolic link to target; perm.Mode does not count.
	Symlink(ctx context.Context, target string, name Name, perm Perm) error
	// Remove removes the file or empty directory name (ENOTEMPTY).
	Remove(ctx context.Context, name Name) error
	// Rename moves oldname to newname as rename(2) does, replacing what is
	// there unless flag says otherwise. Two names of one file: nothing
	// happens. EXDEV where the layer cannot do it in one step.
	Rename(ctx context.Context, oldname, newname Name, flag RenameFlag) error
	// SetAttr changes attributes of name and returns the new ones.
	SetAttr(ctx context.Context, name Name, set SetAttr) (Attr, error)
}

// An Upper is a layer that can stand on top of others: it can record that a
// name is gone and take whole files from below. Its own Lstat, ReadDir and
// Remove know only what it holds: marks are not listed, and a directory that
// holds nothing but whiteouts is empty: Remove, Whiteout and Rename onto it take
// the whiteouts along.
//
// A new file replaces a whiteout of its name in one step, also with Excl and
// NoReplace. A new directory, and
// a directory without a redirect that Rename moves, is opaque from that same
// step on if it takes a whiteout's place: what the whiteout hid stays hidden.
type Upper interface {
	Layer
	Whiteouter
	// Whiteout records that name does not exist, hiding any lower file of that
	// name. Whatever the upper held there is gone when Whiteout returns, in one
	// step: a reader sees the old file or nothing. A directory must be empty
	// (ENOTEMPTY). It is not an error if name was already absent. The parent
	// must exist.
	Whiteout(ctx context.Context, name Name) error
	// SetOpaque sets whether the directory name hides all below it.
	SetOpaque(ctx context.Context, name Name, opaque bool) error
	// CopyUp puts a copy of a file of another layer at name in one step: other
	// calls see what was there before, or the whole copy. The parent must
	// exist in the layer; its times stay as they are. Unless c says otherwise
	// name must not exist, and must not be recorded as gone (EEXIST both).
	CopyUp(ctx context.Context, name Name, c Copy) error
}

// An Absence is what a layer records of a name besides the file it may hold.
type Absence struct {
	// Gone: the layer holds a whiteout at the name; lower files are hidden.
	Gone bool
	// Opaque: the name is a directory of the layer that hides all below it.
	Opaque bool
	// Redirect is where the directory's lower part is: the name it had when it
	// was moved, absolute in the layers below. Empty if it never moved.
	Redirect Name
}

// A Whiteouter is a Reader that holds marks of an earlier life as an upper: a
// frozen layer. Every Upper is one.
type Whiteouter interface {
	// Absence reports what the layer says of names it does not show: whether
	// name itself is recorded as gone, and, if name is a directory of the
	// layer, whether it hides all below it and where its lower part is. A name
	// of which the layer knows nothing is the zero Absence, not an error.
	Absence(ctx context.Context, name Name) (Absence, error)
	// Marks returns the names in the directory name that the layer records as
	// gone, ascending.
	Marks(ctx context.Context, name Name) ([]string, error)
}

// A Copy describes a file that an Upper takes from a lower layer.
type Copy struct {
	// Attr is what the copy gets: type, mode, owner, times, device number.
	Attr Attr
	// From is the open lower file; nil unless it is a regular one.
	From Handle
	// Target is the target of a symbolic link.
	Target string
	// Xattrs are the extended attributes the copy gets, ACLs among them.
	Xattrs []Xattr
	// Origin is the inode number the Overlay shows for the file.
	Origin uint64
	// Layer and Name say where the file comes from, so that a copy that a
	// power cut left short can be made again. See Origins.
	Layer string
	Name  Name

	// Replace: a file at name that is not a directory, or a whiteout, gives
	// way to the copy in the same step, and the parent's times change.
	Replace bool
	// Durable: the copy's data and attributes are durable before it is put at
	// name, and it carries no mark of a pending copy.
	Durable bool
	// Install, unless nil, is called once when the copy is whole, and CopyUp
	// returns its error. put puts the copy at name; where Install fails
	// without having called it, nothing of the copy remains. The layer holds
	// no lock that another of its methods takes while it calls Install: the
	// caller takes its own there, and calls methods of the layer.
	Install func(put func() error) error
}

// An Xattr is an extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// A Handle is a regular file open for reading. It goes on working after the
// file was renamed or removed. Methods may be called concurrently, Close once
// and last.
type Handle interface {
	io.ReaderAt
	// Stat returns the attributes of the open file.
	Stat(ctx context.Context) (Attr, error)
	Close() error
}

// A WriteHandle is a regular file open for reading and writing.
type WriteHandle interface {
	Handle
	io.WriterAt
	// SetAttr changes attributes of the open file and returns the new ones.
	SetAttr(ctx context.Context, set SetAttr) (Attr, error)
	// Flush commits what was written so far for other openers to see: what
	// close(2) promises. On local disk there is nothing to do. Its error is
	// close's.
	Flush(ctx context.Context) error
	// Sync makes everything written so far durable.
	Sync(ctx context.Context) error
}
