package errlayer

import (
	"context"

	"github.com/wsfs/wsfs/overlay"
)

// A Layer is an upper whose calls fail as its plan says. It has all abilities;
// those that the upper lacks fail with overlay.ErrNoAbility.
type Layer struct {
	in   overlay.Upper // immutable
	plan *Plan         // immutable
}

// The abilities of a Layer.
var (
	_ overlay.Upper       = (*Layer)(nil)
	_ overlay.Linker      = (*Layer)(nil)
	_ overlay.XattrSetter = (*Layer)(nil)
	_ overlay.Noder       = (*Layer)(nil)
	_ overlay.Tmpfiler    = (*Layer)(nil)
	_ overlay.Indexer     = (*Layer)(nil)
	_ overlay.IndexOpener = (*Layer)(nil)
	_ overlay.Redirecter  = (*Layer)(nil)
	_ overlay.Marker      = (*Layer)(nil)
	_ overlay.Finder      = (*Layer)(nil)
	_ overlay.Syncer      = (*Layer)(nil)
)

// New returns u with plan before each call.
func New(u overlay.Upper, plan *Plan) *Layer { return &Layer{u, plan} }

// Unwrap returns the upper.
func (l *Layer) Unwrap() any { return l.in }

// ability calls fn with the upper's ability T, if the plan lets it.
func ability[T any](l *Layer, op string, name overlay.Name, fn func(T) error) error {
	if err := l.plan.step(op, name); err != nil {
		return err
	}
	v, ok := overlay.As[T](any(l.in))
	if !ok {
		return overlay.ErrNoAbility
	}
	return fn(v)
}

// Lstat implements overlay.Reader.
func (l *Layer) Lstat(ctx context.Context, name overlay.Name) (overlay.Attr, error) {
	if err := l.plan.step("lstat", name); err != nil {
		return overlay.Attr{}, err
	}
	return l.in.Lstat(ctx, name)
}

// LstatMarks implements overlay.Marker.
func (l *Layer) LstatMarks(ctx context.Context, name overlay.Name) (a overlay.Attr, m overlay.Absence, err error) {
	err = ability(l, "lstatmarks", name, func(v overlay.Marker) error {
		a, m, err = v.LstatMarks(ctx, name)
		return err
	})
	return a, m, err
}

// Find implements overlay.Finder.
func (l *Layer) Find(ctx context.Context, name overlay.Name) (a overlay.Attr, gone bool, err error) {
	err = ability(l, "lstatgone", name, func(v overlay.Finder) error {
		a, gone, err = v.Find(ctx, name)
		return err
	})
	return a, gone, err
}

// ReadDir implements overlay.Reader.
func (l *Layer) ReadDir(ctx context.Context, name overlay.Name) ([]overlay.Entry, error) {
	if err := l.plan.step("readdir", name); err != nil {
		return nil, err
	}
	return l.in.ReadDir(ctx, name)
}

// Readlink implements overlay.Reader.
func (l *Layer) Readlink(ctx context.Context, name overlay.Name) (string, error) {
	if err := l.plan.step("readlink", name); err != nil {
		return "", err
	}
	return l.in.Readlink(ctx, name)
}

// Open implements overlay.Reader.
func (l *Layer) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	if err := l.plan.step("open", name); err != nil {
		return nil, err
	}
	h, err := l.in.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return reader{h, l.plan, name}, nil
}

// OpenFile implements overlay.Layer.
func (l *Layer) OpenFile(ctx context.Context, name overlay.Name, flag overlay.OpenFlag, perm overlay.Perm) (overlay.WriteHandle, error) {
	if err := l.plan.step("openfile", name); err != nil {
		return nil, err
	}
	h, err := l.in.OpenFile(ctx, name, flag, perm)
	if err != nil {
		return nil, err
	}
	return writer{h, l.plan, name}, nil
}

// Mkdir implements overlay.Layer.
func (l *Layer) Mkdir(ctx context.Context, name overlay.Name, perm overlay.Perm) error {
	if err := l.plan.step("mkdir", name); err != nil {
		return err
	}
	return l.in.Mkdir(ctx, name, perm)
}

// Symlink implements overlay.Layer.
func (l *Layer) Symlink(ctx context.Context, target string, name overlay.Name, perm overlay.Perm) error {
	if err := l.plan.step("symlink", name); err != nil {
		return err
	}
	return l.in.Symlink(ctx, target, name, perm)
}

// Remove implements overlay.Layer.
func (l *Layer) Remove(ctx context.Context, name overlay.Name) error {
	if err := l.plan.step("remove", name); err != nil {
		return err
	}
	return l.in.Remove(ctx, name)
}

// Rename implements overlay.Layer.
func (l *Layer) Rename(ctx context.Context, oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	if err := l.plan.step("rename", oldname); err != nil {
		return err
	}
	return l.in.Rename(ctx, oldname, newname, flag)
}

// SetAttr implements overlay.Layer.
func (l *Layer) SetAttr(ctx context.Context, name overlay.Name, set overlay.SetAttr) (overlay.Attr, error) {
	if err := l.plan.step("setattr", name); err != nil {
		return overlay.Attr{}, err
	}
	return l.in.SetAttr(ctx, name, set)
}

// Absence implements overlay.Whiteouter.
func (l *Layer) Absence(ctx context.Context, name overlay.Name) (overlay.Absence, error) {
	if err := l.plan.step("absence", name); err != nil {
		return overlay.Absence{}, err
	}
	return l.in.Absence(ctx, name)
}

// Marks implements overlay.Whiteouter.
func (l *Layer) Marks(ctx context.Context, name overlay.Name) ([]string, error) {
	if err := l.plan.step("marks", name); err != nil {
		return nil, err
	}
	return l.in.Marks(ctx, name)
}

// Whiteout implements overlay.Upper.
func (l *Layer) Whiteout(ctx context.Context, name overlay.Name) error {
	if err := l.plan.step("whiteout", name); err != nil {
		return err
	}
	return l.in.Whiteout(ctx, name)
}

// SetOpaque implements overlay.Upper.
func (l *Layer) SetOpaque(ctx context.Context, name overlay.Name, opaque bool) error {
	if err := l.plan.step("setopaque", name); err != nil {
		return err
	}
	return l.in.SetOpaque(ctx, name, opaque)
}

// CopyUp implements overlay.Upper. Making the copy and putting it in place are
// steps of their own.
func (l *Layer) CopyUp(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if err := l.plan.step("copyup", name); err != nil {
		return err
	}
	install := c.Install
	c.Install = func(put func() error) error {
		step := func() error {
			if err := l.plan.step("put", name); err != nil {
				return err
			}
			return put()
		}
		if install == nil {
			return step()
		}
		return install(step)
	}
	return l.in.CopyUp(ctx, name, c)
}
