// Package overlay merges layers into the tree an agent works in.
//
// A layer is a tree of files. Layers are stacked: an Overlay shows the upper
// and, where the upper says nothing, the lowers in order. A Mux joins layers
// sideways: it sends each name to the layer of the segment it belongs to.
// Names, errors and what each call promises are described at the interfaces in
// layer.go; what a layer can do beyond them is in ability.go.
//
// # Lock order
//
// Locks are taken in this order, and released before any callback, kernel
// notification, or network call made for another name:
//
//	fs: segment lock (per segment, shared for calls by name, exclusive where a name changes its file)
//	  fs: node lock
//	    overlay: directory lock (ascending by name)
//	      overlay: copy-up lock of a name
//	        kvlayer: namespace lock
//	        disklayer: pending-copy table, then descriptor cache
//	          overlay: cache of merged directories
//	            fs: node table
package overlay
