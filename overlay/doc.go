// Package overlay merges layers into the tree an agent works in.
//
// A layer is a tree of files. Layers are stacked: an Overlay shows the upper
// and, where the upper says nothing, the lowers in order. A Mux joins layers
// sideways: it sends each name to the layer of the segment it belongs to.
// Names, errors and what each call promises are described at the interfaces in
// layer.go; what a layer can do beyond them is in ability.go. Package layertest
// is the suite that every layer passes, and Check looks through a tree for what
// is broken.
//
// # What is seen
//
// The rules are those of Linux' overlayfs. A name is what the topmost layer
// that says anything of it says: a file, or (a whiteout) nothing. Directories
// of several layers under one name are one directory, down to the first that is
// opaque; one that was moved records where its lower part is (a redirect), as a
// name of the tree of the layers below it. So a directory of a lower is renamed
// in one step whatever it holds. Listings have every name once.
//
// # What is changed
//
// Changes go to the upper alone. A file of a lower is copied up first, with its
// parents: they keep their attributes, times and inode numbers. A name that a
// lower has is whited out when it is removed or moved; a name that none has
// leaves nothing behind. Names of one lower file (hard links) stay names of one
// file, if the upper is an Indexer: the copy is found by the inode number of
// what was copied, and a further name joins it when it is next looked up. The
// link count of a lower file does not fall when a name of it is removed that
// was not copied up.
//
// Every operation is one step of the upper, or several of which all but one
// change nothing that is seen; a failure or crash between them leaves the old
// tree or the new one. The exception is a file that is moved to another
// segment: it may be left under both names.
//
// # Inode numbers
//
// A file keeps its number over copy-up (Copy.Origin), rename and remount, and no
// two files share one. Devices are numbered from the bottom of the stack, so
// that a new layer on top changes nothing; the number of a file is that of the
// device in the top byte and the layer's inode number below it, or a hash where
// that does not fit. A file that is moved to another segment becomes another.
//
// # What is remembered
//
// For each directory, which layers hold it and under which name: a lookup asks
// one layer after the other from there, and only those that hold the directory;
// of many frozen ones, those that have the name. Layers that others may change
// are asked each time whether they have got a directory that they lacked, unless
// somebody watches for it (Watch). What is in a store of several daemons is never
// remembered.
//
// # Locks
//
// Readers take no lock. They read the version of the directory before and after
// and begin anew when it has changed; only when that happens again and again do
// they take its lock, shared. Changes hold the lock of the directory that the
// name is in, whoever removes a directory also that of the directory itself,
// and shared the lock of moves; who moves a directory holds that exclusively.
// Each segment has its own. Copies are made without a lock and put in place
// under the directory's, after a look, if it has changed meanwhile, whether the
// name still means the file that was copied; there is one copier for each file, and others wait.
//
// In a directory that the upper alone has, the upper's own step is all there is
// to a change of a file, and the lock of moves is enough.
//
// # Lock order
//
// Locks are taken in this order, and released before any callback, kernel
// notification, or network call made for another name:
//
//	fs: segment lock (per segment, shared for calls by name, exclusive where a name changes its file)
//	  fs: node lock
//	    overlay: being the copier of a file (Overlay.copies)
//	      kvlayer, disklayer: nothing, while they call Copy.Install
//	        overlay: lock of moves (per segment, ascending), shared or exclusive
//	          overlay: directory locks (by segment, then by hash of the name, ascending)
//	            kvlayer: namespace lock
//	            disklayer: pending-copy table, then descriptor cache
//	              overlay: devices (numbers.mu), cache of merged directories (cache.mu), watched absences
//	                fs: node table
//
// memlayer has one lock, below all others.
package overlay
