package kvlayer

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// Absence implements overlay.Whiteouter.
func (l *Layer) Absence(ctx context.Context, name overlay.Name) (overlay.Absence, error) {
	if err := name.Check("absence"); err != nil {
		return overlay.Absence{}, err
	}
	if err := l.fresh(ctx); err != nil {
		return overlay.Absence{}, pathError("absence", name, err)
	}
	_, a, err := marksOf(ctx, l, name)
	return a, pathError("absence", name, err)
}

// LstatMarks implements overlay.Marker.
func (l *Layer) LstatMarks(ctx context.Context, name overlay.Name) (overlay.Attr, overlay.Absence, error) {
	if err := name.Check("lstat"); err != nil {
		return overlay.Attr{}, overlay.Absence{}, err
	}
	if err := l.fresh(ctx); err != nil {
		return overlay.Attr{}, overlay.Absence{}, pathError("lstat", name, err)
	}
	r, a, err := marksOf(ctx, l, name)
	switch {
	case err != nil:
		return overlay.Attr{}, a, pathError("lstat", name, err)
	case r == nil:
		// The middle of the name decides between ENOENT and ENOTDIR.
		_, err := locate(ctx, l, name)
		if err == nil {
			err = syscall.ENOENT
		}
		return overlay.Attr{}, a, pathError("lstat", name, err)
	}
	return l.attrOf(r), a, nil
}

// marksOf returns what a tree holds at name, nil if nothing, and says of it.
func marksOf(ctx context.Context, t tree, name overlay.Name) (*record, overlay.Absence, error) {
	e := rootEntry
	if name != overlay.Root {
		at, err := locate(ctx, t, name)
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
			return nil, overlay.Absence{}, nil
		case err != nil:
			return nil, overlay.Absence{}, err
		}
		if e, err = t.entryOf(ctx, at); err != nil {
			return nil, overlay.Absence{}, err
		}
	}
	if !e.exists() {
		return nil, overlay.Absence{Gone: e.whiteout}, nil
	}
	r, err := t.recordOf(ctx, e.ino)
	if err != nil || r == nil {
		return nil, overlay.Absence{}, err
	}
	return r, overlay.Absence{Opaque: r.opaque, Redirect: overlay.Name(r.redirect)}, nil
}

// Marks implements overlay.Whiteouter.
func (l *Layer) Marks(ctx context.Context, name overlay.Name) ([]string, error) {
	if err := name.Check("marks"); err != nil {
		return nil, err
	}
	if err := l.fresh(ctx); err != nil {
		return nil, pathError("marks", name, err)
	}
	dir, err := findDir(ctx, l, name)
	if err != nil {
		return nil, pathError("marks", name, err)
	}
	names, err := l.names(ctx, dir)
	if err != nil {
		return nil, pathError("marks", name, err)
	}
	return whiteouts(names), nil
}

// whiteouts returns the names that are recorded as gone, ascending.
func whiteouts(names map[string]entry) []string {
	var marks []string
	for name, e := range names {
		if e.whiteout {
			marks = append(marks, name)
		}
	}
	slices.Sort(marks)
	return marks
}

// Whiteout implements overlay.Upper.
func (l *Layer) Whiteout(ctx context.Context, name overlay.Name) error {
	return l.change(ctx, "whiteout", name, func(t *tx) error {
		at, err := locate(ctx, t, name)
		if err != nil {
			return err
		}
		e, err := t.entry(at)
		switch {
		case err != nil || e.whiteout:
			return err
		case e.exists():
			return t.remove(at, e, gone)
		}
		t.log(OpRemove, at, nil)
		if err := t.setEntry(at, gone); err != nil {
			return err
		}
		return t.touchDir(at.dir)
	})
}

// SetOpaque implements overlay.Upper.
func (l *Layer) SetOpaque(ctx context.Context, name overlay.Name, opaque bool) error {
	return l.mark(ctx, "setopaque", name, func(r *record) { r.opaque = opaque })
}

// SetRedirect implements overlay.Redirecter.
func (l *Layer) SetRedirect(ctx context.Context, name, target overlay.Name) error {
	return l.mark(ctx, "setredirect", name, func(r *record) { r.redirect = string(target) })
}

// mark changes the marks of the directory name.
func (l *Layer) mark(ctx context.Context, op string, name overlay.Name, set func(*record)) error {
	return l.change(ctx, op, name, func(t *tx) error {
		dir, err := findDir(ctx, t, name)
		if err != nil {
			return err
		}
		r, err := t.edit(dir)
		if err != nil {
			return err
		}
		set(r)
		t.touched(r)
		return nil
	})
}
