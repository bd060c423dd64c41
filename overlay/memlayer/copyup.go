package memlayer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// CopyUp implements overlay.Upper. Pages that are all zero become holes.
func (l *Layer) CopyUp(_ context.Context, name overlay.Name, c overlay.Copy) error {
	l.mu.RLock()
	_, _, err := l.place(name, c)
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	n := newNode(c.Attr.Mode)
	if err := l.fill(n, name, c); err != nil {
		l.discard(n)
		return err
	}
	put := func() error { return l.install(n, name, c) }
	if c.Install != nil {
		err = c.Install(put)
	} else {
		err = put()
	}
	if err != nil {
		l.discard(n)
	}
	return err
}

// place returns where a copy would be put, or the error of putting it.
//
// Preconditions: l.mu is held, shared or not.
func (l *Layer) place(name overlay.Name, c overlay.Copy) (*node, string, error) {
	if name == overlay.Root {
		return nil, "", overlay.PathError("copyup", name, syscall.EEXIST)
	}
	dir, base, err := l.findParent("copyup", name)
	if err != nil {
		return nil, "", err
	}
	switch n := dir.children[base]; {
	case n == nil, c.Replace && n.kind() != overlay.TypeDir:
		return dir, base, nil
	case c.Replace:
		return nil, "", overlay.PathError("copyup", name, syscall.EISDIR)
	}
	return nil, "", overlay.PathError("copyup", name, syscall.EEXIST)
}

// fill makes n, which nobody else sees yet, a copy as c says.
func (l *Layer) fill(n *node, name overlay.Name, c overlay.Copy) error {
	a := c.Attr
	n.uid, n.gid, n.rdev, n.target = a.UID, a.GID, a.Rdev, c.Target
	n.atime, n.mtime = a.Atime, a.Mtime
	n.origin = c.Origin
	for _, x := range c.Xattrs {
		if n.xattrs == nil {
			n.xattrs = make(map[string][]byte)
		}
		n.xattrs[x.Name] = append([]byte{}, x.Value...)
	}
	if c.From == nil {
		return nil
	}
	return l.copyData(n, name, c.From)
}

// copyData reads from to its end into n.
func (l *Layer) copyData(n *node, name overlay.Name, from io.ReaderAt) error {
	buf := make([]byte, 16*pageSize)
	for off := int64(0); ; {
		got, err := from.ReadAt(buf, off)
		for at := 0; at < got; at += pageSize {
			if l.addPage(n, buf[at:min(at+pageSize, got)], off+int64(at)) {
				continue
			}
			return overlay.PathError("copyup", name, syscall.ENOSPC)
		}
		off += int64(got)
		n.data.size = off
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// addPage writes p at off unless it is all zero, and reports whether there was
// room.
func (l *Layer) addPage(n *node, p []byte, off int64) bool {
	for _, b := range p {
		if b != 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			return n.data.writeAt(p, off, l.grow) == len(p)
		}
	}
	return true
}

// discard gives the space of a copy that was not put anywhere back.
func (l *Layer) discard(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(n)
}

// install is the step that makes the copy n visible at name.
func (l *Layer) install(n *node, name overlay.Name, c overlay.Copy) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, base, err := l.place(name, c)
	if err != nil {
		return err
	}
	mtime, ctime := dir.mtime, dir.ctime
	l.put(dir, base, n)
	if !c.Replace {
		dir.mtime, dir.ctime = mtime, ctime
	}
	if c.Attr.Nlink > 1 && c.Origin != 0 && n.kind() != overlay.TypeDir {
		n.left = int(c.Attr.Nlink) - 1
		n.indexed = true
		l.index[c.Origin] = n
	}
	return nil
}

// Indexed implements overlay.Indexer.
func (l *Layer) Indexed(origin uint64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.index[origin] != nil
}

// LinkIndexed implements overlay.Indexer.
func (l *Layer) LinkIndexed(_ context.Context, origin uint64, name overlay.Name) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.index[origin]
	if n == nil {
		return overlay.PathError("link", name, syscall.ENOENT)
	}
	dir, base, err := l.place(name, overlay.Copy{})
	if err != nil {
		return err
	}
	mtime, ctime := dir.mtime, dir.ctime
	l.put(dir, base, n)
	dir.mtime, dir.ctime = mtime, ctime
	n.left = max(n.left-1, 0)
	return nil
}

// DropIndexed implements overlay.Indexer.
func (l *Layer) DropIndexed(_ context.Context, origin uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.index[origin]; n != nil {
		n.left = max(n.left-1, 0)
		l.release(n)
	}
	return nil
}

// OpenIndexed implements overlay.IndexOpener.
func (l *Layer) OpenIndexed(_ context.Context, origin uint64) (overlay.Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.index[origin]
	if n == nil {
		return nil, overlay.PathError("open", overlay.Root, syscall.ENOENT)
	}
	if err := regular("open", overlay.Root, n); err != nil {
		return nil, err
	}
	return readOnly{l.open(overlay.Root, n, 0)}, nil
}

// Check implements overlay.Checker: link counts, the index and the space used
// are what the tree says.
func (l *Layer) Check(context.Context) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seen := map[*node]int{l.root: 1}
	var errs []error
	l.count(l.root, ".", seen, &errs)
	for origin, n := range l.index {
		if n.origin != origin || !n.indexed || n.names+n.left <= 0 {
			errs = append(errs, fmt.Errorf("memlayer: the index has a dead copy of %#x", origin))
		}
	}
	for n, names := range seen {
		if n.names != names || n.dropped {
			errs = append(errs, fmt.Errorf("memlayer: inode %d has %d names, counted %d", n.ino, names, n.names))
		}
	}
	return errors.Join(errs...)
}

// count adds the entries below dir to seen.
func (l *Layer) count(dir *node, name overlay.Name, seen map[*node]int, errs *[]error) {
	subdirs := 0
	for base, n := range dir.children {
		if n == whiteout {
			continue
		}
		seen[n]++
		if n.kind() == overlay.TypeDir {
			subdirs++
			l.count(n, name.Join(base), seen, errs)
		}
	}
	if subdirs != dir.subdirs {
		*errs = append(*errs, fmt.Errorf("memlayer: %q holds %d directories, counted %d", name, subdirs, dir.subdirs))
	}
}
