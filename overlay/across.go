package overlay

import (
	"context"
	"errors"
	"syscall"
)

// moveAcross moves the regular file of r to another segment: a durable copy is
// put at the new name in one step, then the old name goes. What fails between
// the two leaves the file under both names.
func (o *Overlay) moveAcross(ctx context.Context, r rename) error {
	switch {
	case !r.src.attr.IsRegular(), r.flag&Exchange != 0:
		return PathError("rename", r.newname, syscall.EXDEV)
	case r.exists && r.dst.attr.IsDir():
		return PathError("rename", r.newname, syscall.EISDIR)
	}
	// Both directories change.
	for _, dir := range []Name{r.oldname.Dir(), r.newname.Dir()} {
		if err := o.copyUpDir(ctx, "rename", dir); err != nil {
			return err
		}
	}
	var last error
	for range copyTries {
		if last = o.copyAcross(ctx, r); !errors.Is(last, errMoved) {
			return about("rename", r.oldname, last)
		}
		again, err := o.planRename(ctx, r.oldname, r.newname, r.flag, o.find)
		if err != nil || again.same {
			return err
		}
		r = again
	}
	return PathError("rename", r.oldname, syscall.EBUSY)
}

// copyAcross is one try of moveAcross. errMoved: what r says is not true any
// more, or the file was written to while it was copied.
func (o *Overlay) copyAcross(ctx context.Context, r rename) error {
	s := o.stack
	c, err := s.describe(ctx, r.oldname, r.src, true)
	if err != nil {
		return err
	}
	defer c.From.Close()
	before := c.Attr
	// It becomes a file of its own: while the old name is there, too, and if it
	// has others, they keep the number.
	c.Origin, c.Attr.Nlink = 0, 1
	c.Replace, c.Durable = true, true
	return s.install(ctx, r.newname, c, func(put func() error) error {
		defer o.lock(r.oldname.Dir(), r.newname.Dir())()
		now, err := o.planRename(ctx, r.oldname, r.newname, r.flag, s.find)
		if err != nil {
			return err
		}
		before.Source = Host // whoever wrote to it did so through us
		if now.src.place != r.src.place || changed(ctx, c.From, before) {
			return errMoved
		}
		olddir, err := s.resolve(ctx, 0, r.oldname.Dir())
		if err != nil {
			return err
		}
		if err := put(); err != nil {
			return err
		}
		return o.removeLocked(ctx, olddir, r.oldname)
	})
}
