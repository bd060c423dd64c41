// Package disklayer makes a layer of a directory on a Linux file system: an
// Upper that is written, a Frozen layer that once was one, and a Host directory
// (a project or a template) that other programs may change at any time.
//
// # Format
//
// A layer is a plain directory in the format of the kernel's overlayfs. A
// whiteout is a character device 0:0. Marks are extended attributes,
// trusted.overlay.* for a privileged process and user.overlay.* for others:
//
//	opaque       "y": the directory hides all below it
//	redirect     "/a/b": where the directory's lower part is, from the root
//	impure       "y": the directory holds files with an origin
//	wsfs.origin  what Attr.Origin tells, what Attr.Nlink adds to the link count
//	             of the file system and, of a pending copy, the origin's layer,
//	             name, size and times
//	wsfs.format  on the layer's root: the version of this format, "1"
//
// Attributes named *.overlay.* are never shown, set or removed through a layer.
//
// Beside the layer's directory DIR lies DIR.wsfs (Options.Meta):
//
//	clean   the names of all files with several, written by Close; absent while
//	        the layer is in use
//	index/  for each copy of a lower file with several names a link to it,
//	        named by the origin in hexadecimal
//	layers  the layers that copies came from, which marks name by number
//	marks   marks that the file system refuses to hold as attributes or
//	        devices: user.* attributes of links, FIFOs and files that their owner
//	        may not write, and whiteouts where the state lies on an overlayfs.
//	        Made when it is first needed; the kernel does not see these marks.
//
// # Durability
//
// CopyUp does not wait for the disk. Until its data is durable a copy is
// pending: its mark, set before it has its name, says where it came from. The
// copier never sets the size ahead of the data, so a copy that a power cut left
// short is known by its size, or by a hole where the origin has data, and
// Recover makes it again from its origin. Whatever makes size or mark untrue
// (truncation, fallocate, O_DIRECT and O_SYNC, a second name, a rename, fsync)
// first makes the copy durable, and then durably the end of its being pending.
// In the background syncfs does the same for all copies at once; the change
// time of a copy moves once more when that happens.
//
// A copy made by a caller that asks for a durable one is never pending, and its
// name is durable, too, when CopyUp returns.
//
// Every operation of several steps has an order in which a crash leaves the
// tree before or after it, or what it replaced under a name in the work
// directory, which Recover sweeps. An exception is noted where it is.
//
// # Locks
//
// In this order, within the package lock order of package overlay:
//
//	Upper.locks: names in a directory (ascending)
//	  a pending copy
//	    links: the index
//	      pending-copy table
//	  layer table, name table, mark file
//	    descriptor cache
//	notifier: what is watched
//	  descriptor cache
//
// Data is copied, and single files are synced, without a lock on names.
//
// # The process
//
// The process must run with umask 0: modes are made exactly as asked for. A
// name of any length works, since every call goes through the descriptor of
// the name's directory; those descriptors are cached, at most
// Options.MaxDirs of them.
//
// On systems other than Linux every Open function fails with
// errors.ErrUnsupported.
package disklayer
