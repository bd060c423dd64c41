// Package fs answers the kernel's FUSE requests from an overlay.Layer.
//
// An FS is a fuse.RawFileSystem with a node table of its own; any transport
// that speaks go-fuse's raw interface can drive it (fuse.NewServer, or package
// fs/transport). The transport gives it a Kernel, through which it sends
// notifications and registers backing files.
//
// # Nodes
//
// A node is a file that the kernel knows. The node is the identity, its path is
// derived from the names of its parents at each call. A call by path holds the
// segment locks of the names it is about, shared, from the moment it derives
// the path to the end of the layer's call; what gives a name another file
// (rename, unlink, rmdir) holds them exclusively and changes the table before
// it lets go. So a rename never makes a call hit another file. Node numbers are
// never used twice. A file with several names is one node, found by its inode
// number; other files are found by parent and name, and so are the names of a
// template's file, of which each is copied into the store for itself.
//
// A node whose names are all gone is unlinked: calls on it go to its open file.
// A node whose name now means another file, because somebody outside the mount
// replaced it or a rename carried its content to another segment, is stale:
// calls by path answer ESTALE, upon which the kernel looks the name up again. It
// does so once: a name that was replaced between LOOKUP and OPEN is contended for
// a second, and its LOOKUP opens the file (linger.go).
//
// # Caching
//
// What only this mount changes is cached without limit. Files that programs
// outside the mount may change, and files of a store, are cached without limit
// where the layer watches their directory (overlay.Watcher), since the watch
// invalidates them; for Unwatched (one second) otherwise, and where they have
// several names. Absent names are cached as long as their directory's files, and
// listings as long as absent names: the kernel opens a directory without us.
// Each open of a file that others may change looks at it anew, and drops the
// kernel's pages if it is not what the kernel was told. Whoever changes the
// layer as a library tells the FS (Invalidate).
//
// # Open files
//
// An inode has one I/O mode at a time, a rule of the kernel: cached or
// passthrough. The first open decides, and the mode stays until the last
// RELEASE has been handled. All handles of a local file share one open file of
// the layer; when a writer opens, it takes the place of the one the readers
// read, so that a reader that opened before a copy-up reads the new bytes.
// Handles of store files that write have an open file of their own, since
// close-to-open is about handles.
//
// # Errors
//
// The kernel gets the errno inside a layer's error (errno.go). A panic in a
// handler is logged and answered with EIO.
package fs
