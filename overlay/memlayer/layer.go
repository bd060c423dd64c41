package memlayer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// Options say what a Layer is like. The zero value is an unbounded layer that
// changes through this mount alone.
type Options struct {
	ID     string         // what LayerID returns
	Source overlay.Source // who else changes the files
	Dev    uint64         // Attr.Dev of all files; 0 stands for 1
	Bytes  int64          // space for data; 0 means no bound
}

// A Layer is a tree of files in memory.
type Layer struct {
	opt Options // immutable

	mu sync.RWMutex // guards all below, and every node of the layer

	root *node
	used int64 // bytes of data pages in the layer
	// index has the copies of lower files with several names by Copy.Origin.
	// A node is here while it has a name, in the layer or left in the lower.
	index map[uint64]*node
	// watches are told of changes in their directory.
	watches map[*watch]struct{}
}

// The abilities of a Layer.
var (
	_ overlay.Upper       = (*Layer)(nil)
	_ overlay.Linker      = (*Layer)(nil)
	_ overlay.XattrSetter = (*Layer)(nil)
	_ overlay.Noder       = (*Layer)(nil)
	_ overlay.Tmpfiler    = (*Layer)(nil)
	_ overlay.Statfser    = (*Layer)(nil)
	_ overlay.Watcher     = (*Layer)(nil)
	_ overlay.Identified  = (*Layer)(nil)
	_ overlay.Recoverer   = (*Layer)(nil)
	_ overlay.Syncer      = (*Layer)(nil)
	_ overlay.Indexer     = (*Layer)(nil)
	_ overlay.IndexOpener = (*Layer)(nil)
	_ overlay.Redirecter  = (*Layer)(nil)
	_ overlay.Marker      = (*Layer)(nil)
	_ overlay.Checker     = (*Layer)(nil)
)

// lastIno is the inode number given out last, by any layer.
var lastIno atomic.Uint64

// New returns an empty layer, whose root belongs to root and has mode 0755.
func New(opt Options) *Layer {
	if opt.Dev == 0 {
		opt.Dev = 1
	}
	l := &Layer{
		opt:     opt,
		index:   make(map[uint64]*node),
		watches: make(map[*watch]struct{}),
	}
	l.root = newNode(overlay.TypeDir | 0o755)
	l.root.names = 1
	return l
}

// LayerID returns Options.ID.
func (l *Layer) LayerID() string { return l.opt.ID }

// SyncAll does nothing: memory is as durable as it gets.
func (l *Layer) SyncAll(context.Context) error { return nil }

// Recover does nothing: no step of the layer can be cut short.
func (l *Layer) Recover(context.Context, overlay.Origins) ([]overlay.Name, error) {
	return nil, nil
}

// Statfs tells the space of Options.Bytes, or 1 TiB where it has no bound.
func (l *Layer) Statfs(context.Context) (overlay.Statfs, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	total := l.opt.Bytes
	if total == 0 {
		total = 1 << 40
	}
	free := uint64(max(total-l.used, 0)) / pageSize
	return overlay.Statfs{
		Bsize: pageSize, Blocks: uint64(total) / pageSize, Bfree: free, Bavail: free,
		Files: 1 << 32, Ffree: 1<<32 - lastIno.Load(),
	}, nil
}

// Lstat implements overlay.Reader.
func (l *Layer) Lstat(_ context.Context, name overlay.Name) (overlay.Attr, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.find("lstat", name)
	if err != nil {
		return overlay.Attr{}, err
	}
	return l.attr(n), nil
}

// ReadDir implements overlay.Reader.
func (l *Layer) ReadDir(_ context.Context, name overlay.Name) ([]overlay.Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	dir, err := l.findDir("readdir", name)
	if err != nil {
		return nil, err
	}
	entries := make([]overlay.Entry, 0, len(dir.children))
	for base, n := range dir.children {
		if n != whiteout {
			entries = append(entries, overlay.Entry{
				Name: base, Type: n.mode & overlay.TypeMask,
				Dev: l.opt.Dev, Ino: n.ino, Origin: n.origin,
			})
		}
	}
	slices.SortFunc(entries, func(a, b overlay.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Readlink implements overlay.Reader.
func (l *Layer) Readlink(_ context.Context, name overlay.Name) (string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.find("readlink", name)
	if err != nil {
		return "", err
	}
	if n.kind() != overlay.TypeLink {
		return "", overlay.PathError("readlink", name, syscall.EINVAL)
	}
	return n.target, nil
}

// Open implements overlay.Reader.
func (l *Layer) Open(_ context.Context, name overlay.Name) (overlay.Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.find("open", name)
	if err != nil {
		return nil, err
	}
	if err := regular("open", name, n); err != nil {
		return nil, err
	}
	return readOnly{l.open(name, n, 0)}, nil
}

// regular returns the error of opening n, nil if it is a regular file.
func regular(op string, name overlay.Name, n *node) error {
	switch n.kind() {
	case overlay.TypeReg:
		return nil
	case overlay.TypeDir:
		return overlay.PathError(op, name, syscall.EISDIR)
	}
	return overlay.PathError(op, name, syscall.EINVAL)
}

// find returns the node at name.
//
// Preconditions: l.mu is held, shared or not.
func (l *Layer) find(op string, name overlay.Name) (*node, error) {
	if name == overlay.Root {
		return l.root, nil
	}
	dir, base, err := l.findParent(op, name)
	if err != nil {
		return nil, err
	}
	n := dir.children[base]
	if n == nil || n == whiteout {
		return nil, overlay.PathError(op, name, syscall.ENOENT)
	}
	return n, nil
}

// findDir is find for a directory: ENOTDIR if name is something else.
func (l *Layer) findDir(op string, name overlay.Name) (*node, error) {
	n, err := l.find(op, name)
	if err == nil && n.kind() != overlay.TypeDir {
		return nil, overlay.PathError(op, name, syscall.ENOTDIR)
	}
	return n, err
}

// findParent returns the directory that name is in and its last component.
//
// Preconditions: l.mu is held, shared or not; name is not the root.
func (l *Layer) findParent(op string, name overlay.Name) (*node, string, error) {
	if err := name.Check(op); err != nil {
		return nil, "", err
	}
	dir := l.root
	rest := string(name)
	for {
		c, after, more := strings.Cut(rest, "/")
		if !more {
			return dir, c, nil
		}
		n := dir.children[c]
		switch {
		case n == nil, n == whiteout:
			return nil, "", overlay.PathError(op, name, syscall.ENOENT)
		case n.kind() != overlay.TypeDir:
			return nil, "", overlay.PathError(op, name, syscall.ENOTDIR)
		}
		dir, rest = n, after
	}
}

// now returns the time of the layer's clock.
func (l *Layer) now() time.Time { return time.Now().Round(0) }
