package kvlayer

import (
	"context"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// A tree is a state of the segment: the newest one (Layer), one in the making
// (tx), or a past one (past).
type tree interface {
	entryOf(ctx context.Context, at link) (entry, error)
	recordOf(ctx context.Context, ino uint64) (*record, error)
}

func (l *Layer) entryOf(ctx context.Context, at link) (entry, error)       { return l.entry(ctx, at) }
func (l *Layer) recordOf(ctx context.Context, ino uint64) (*record, error) { return l.record(ctx, ino) }

func (t *tx) entryOf(_ context.Context, at link) (entry, error)       { return t.entry(at) }
func (t *tx) recordOf(_ context.Context, ino uint64) (*record, error) { return t.record(ino) }

// rootEntry is what would be the root's entry if it had a name.
var rootEntry = entry{typ: overlay.TypeDir, ino: rootIno}

// locate returns the place of name: ENOENT if its directory does not exist,
// ENOTDIR if that is something else. The root has no place: EBUSY.
func locate(ctx context.Context, t tree, name overlay.Name) (link, error) {
	if name == overlay.Root {
		return link{}, syscall.EBUSY
	}
	dir, base := name.Split()
	e, err := lookup(ctx, t, dir)
	switch {
	case err != nil:
		return link{}, err
	case e.typ != overlay.TypeDir:
		return link{}, syscall.ENOTDIR
	}
	return link{dir: e.ino, name: base}, nil
}

// lookup returns the entry of the file name: ENOENT if there is none.
func lookup(ctx context.Context, t tree, name overlay.Name) (entry, error) {
	e := rootEntry
	if name == overlay.Root {
		return e, nil
	}
	for c := range strings.SplitSeq(string(name), "/") {
		if e.typ != overlay.TypeDir {
			return entry{}, syscall.ENOTDIR
		}
		var err error
		if e, err = t.entryOf(ctx, link{dir: e.ino, name: c}); err != nil {
			return entry{}, err
		}
		if !e.exists() {
			return entry{}, syscall.ENOENT
		}
	}
	return e, nil
}

// find returns the record of the file name. A file that was removed between
// the two reads is ENOENT.
func find(ctx context.Context, t tree, name overlay.Name) (*record, error) {
	e, err := lookup(ctx, t, name)
	if err != nil {
		return nil, err
	}
	r, err := t.recordOf(ctx, e.ino)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, syscall.ENOENT
	}
	return r, nil
}

// findDir returns the number of the directory name.
func findDir(ctx context.Context, t tree, name overlay.Name) (uint64, error) {
	e, err := lookup(ctx, t, name)
	switch {
	case err != nil:
		return 0, err
	case e.typ != overlay.TypeDir:
		return 0, syscall.ENOTDIR
	}
	return e.ino, nil
}

// Lstat implements overlay.Reader. A file that is open in this layer has the
// size and times of what was written, committed or not.
func (l *Layer) Lstat(ctx context.Context, name overlay.Name) (overlay.Attr, error) {
	r, err := l.newest(ctx, "lstat", name)
	if err != nil {
		return overlay.Attr{}, pathError("lstat", name, err)
	}
	return l.attrOf(r), nil
}

// newest returns the record of name as the store has it now.
func (l *Layer) newest(ctx context.Context, op string, name overlay.Name) (*record, error) {
	if err := name.Check(op); err != nil {
		return nil, err
	}
	if err := l.fresh(ctx); err != nil {
		return nil, err
	}
	return find(ctx, l, name)
}

// attrOf returns the attributes of r as this layer's users see them.
func (l *Layer) attrOf(r *record) overlay.Attr {
	a := r.attr(l.opt.Dev)
	l.mu.Lock()
	f := l.open[r.ino]
	l.mu.Unlock()
	if f != nil {
		f.overlayAttr(&a)
	}
	return a
}

// ReadDir implements overlay.Reader.
func (l *Layer) ReadDir(ctx context.Context, name overlay.Name) ([]overlay.Entry, error) {
	if err := name.Check("readdir"); err != nil {
		return nil, err
	}
	if err := l.fresh(ctx); err != nil {
		return nil, pathError("readdir", name, err)
	}
	dir, err := findDir(ctx, l, name)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list, err := l.listing(ctx, dir)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return append([]overlay.Entry(nil), list...), nil
}

// Readlink implements overlay.Reader.
func (l *Layer) Readlink(ctx context.Context, name overlay.Name) (string, error) {
	r, err := l.newest(ctx, "readlink", name)
	if err == nil && r.typ() != overlay.TypeLink {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return r.target, nil
}
