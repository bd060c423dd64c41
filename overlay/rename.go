package overlay

import (
	"context"
	"syscall"
)

// Rename implements Layer. What the lowers hold of the source is copied up
// first: a file whole, of a directory the directory alone, which then records
// where its lower part is. Across segments regular files are moved by copying
// them, everything else is EXDEV.
func (o *Overlay) Rename(ctx context.Context, oldname, newname Name, flag RenameFlag) error {
	flag &^= LeaveWhiteout
	if err := newname.Check("rename"); err != nil {
		return err
	}
	if flag&Exchange != 0 && flag&NoReplace != 0 {
		return PathError("rename", newname, syscall.EINVAL)
	}
	if oldname == Root || newname == Root || o.Pinned(oldname) || o.Pinned(newname) {
		return PathError("rename", newname, syscall.EBUSY)
	}
	if o.stack.upper == nil {
		return PathError("rename", oldname, syscall.EROFS)
	}
	for range copyTries {
		done, err := o.renameFile(ctx, rename{oldname: oldname, newname: newname, flag: flag})
		if done || err != nil {
			return about("rename", oldname, err)
		}
		r, err := o.planRename(ctx, oldname, newname, flag, o.find)
		if err != nil || r.same {
			return err
		}
		if o.Segment(oldname) != o.Segment(newname) {
			return o.moveAcross(ctx, r)
		}
		if err := o.prepareRename(ctx, r); err != nil {
			return err
		}
		done, err = o.tryRename(ctx, r)
		if done || err != nil {
			return about("rename", oldname, err)
		}
	}
	return PathError("rename", oldname, syscall.EBUSY)
}

// A rename is what both names of a rename are.
type rename struct {
	oldname, newname Name
	flag             RenameFlag
	src, dst         hit
	exists           bool // there is a file at newname: dst
	same             bool // both are names of one file: nothing is to be done

	oldBelow, newBelow bool // the lowers hold a file of the name; see lookBelow
}

// renameFile does the rename r, of which the names are known, if there is little
// to look at: a file that is in the upper gets another name there. done is false
// if it is another rename, or one that fails.
func (o *Overlay) renameFile(ctx context.Context, r rename) (done bool, err error) {
	if r.flag&Exchange != 0 || r.oldname.Within(r.newname) || r.newname.Within(r.oldname) ||
		o.Segment(r.oldname) != o.Segment(r.newname) {
		return false, nil
	}
	s := o.stack
	defer o.lock(r.oldname.Dir(), r.newname.Dir())()
	olddir, err := s.resolve(ctx, 0, r.oldname.Dir())
	if err != nil || !olddir.inUpper(s) {
		return false, nil
	}
	newdir, err := s.resolve(ctx, 0, r.newname.Dir())
	if err != nil || !newdir.inUpper(s) {
		return false, nil
	}
	r.src, err = s.findIn(ctx, olddir, r.oldname.Base())
	if err != nil || !r.src.top || r.src.attr.IsDir() {
		return false, nil
	}
	if err := s.lookBelow(ctx, &r, olddir, newdir); err != nil {
		return false, err
	}
	if r.newBelow { // else the upper looks itself what it replaces
		r.dst, err = s.findIn(ctx, newdir, r.newname.Base())
		switch {
		case isErrno(err, syscall.ENOENT):
		case err != nil, r.dst.attr.IsDir(), !r.dst.top && r.dst.attr.Nlink > 1, r.flag&NoReplace != 0:
			return false, nil
		default:
			r.exists = true
		}
	}
	return true, o.renameLocked(ctx, r)
}

// lookBelow finds out whether the lowers hold files of the names of r, which are
// in olddir and newdir.
func (s *stack) lookBelow(ctx context.Context, r *rename, olddir, newdir *merged) (err error) {
	if r.oldBelow, err = s.below(ctx, olddir, r.oldname.Base()); err != nil {
		return err
	}
	r.newBelow, err = s.below(ctx, newdir, r.newname.Base())
	return err
}

// A finder finds a file, with or without locks.
type finder func(ctx context.Context, op string, name Name) (hit, error)

// planRename finds both sides of a rename, and refuses what rename(2) does.
func (o *Overlay) planRename(ctx context.Context, oldname, newname Name, flag RenameFlag, find finder) (r rename, err error) {
	r = rename{oldname: oldname, newname: newname, flag: flag}
	if r.src, err = find(ctx, "rename", oldname); err != nil {
		return r, err
	}
	if oldname != newname && newname.Within(oldname) {
		return r, PathError("rename", newname, syscall.EINVAL)
	}
	r.dst, err = find(ctx, "rename", newname)
	switch {
	case isErrno(err, syscall.ENOENT) && flag&Exchange == 0:
		_, err := o.stack.resolve(ctx, 0, newname.Dir())
		return r, about("rename", newname, err)
	case err != nil:
		return r, err
	}
	r.exists = true
	return r, o.checkTarget(ctx, &r)
}

// checkTarget sets r.same, or refuses to replace r.dst.
func (o *Overlay) checkTarget(ctx context.Context, r *rename) error {
	from, to := o.stack.show(r.src.attr), o.stack.show(r.dst.attr)
	linked := !from.IsDir() && from.Ino == to.Ino && from.Nlink > 1
	switch {
	case r.flag&NoReplace != 0:
		return PathError("rename", r.newname, syscall.EEXIST)
	case r.oldname == r.newname, linked:
		r.same = true
		return nil
	case r.flag&Exchange != 0 && r.oldname.Within(r.newname):
		return PathError("rename", r.newname, syscall.EINVAL)
	case r.flag&Exchange != 0:
		return nil
	case r.oldname.Within(r.newname):
		return PathError("rename", r.newname, syscall.ENOTEMPTY)
	case to.IsDir() && !from.IsDir():
		return PathError("rename", r.newname, syscall.EISDIR)
	case !to.IsDir() && from.IsDir():
		return PathError("rename", r.newname, syscall.ENOTDIR)
	case !to.IsDir():
		return nil
	}
	return about("rename", r.newname, o.stack.mustBeEmpty(ctx, r.newname))
}

// prepareRename copies up all that the rename needs in the upper.
func (o *Overlay) prepareRename(ctx context.Context, r rename) error {
	if err := o.copyUpHit(ctx, "rename", r.oldname, r.src, true); err != nil {
		return err
	}
	if r.flag&Exchange != 0 {
		return o.copyUpHit(ctx, "rename", r.newname, r.dst, true)
	}
	return o.copyUpDir(ctx, "rename", r.newname.Dir())
}

// tryRename does the rename r, if what it needs is in the upper and r is still
// true. done is false if not.
func (o *Overlay) tryRename(ctx context.Context, r rename) (done bool, err error) {
	s := o.stack
	move := r.src.attr.IsDir() || r.exists && r.dst.attr.IsDir()
	defer o.locks.change(move, o.dirLock(r.oldname.Dir()), o.dirLock(r.newname.Dir()))()
	now, err := o.planRename(ctx, r.oldname, r.newname, r.flag, s.find)
	if err != nil {
		return false, err
	}
	olddir, err := s.resolve(ctx, 0, r.oldname.Dir())
	if err != nil {
		return false, err
	}
	newdir, err := s.resolve(ctx, 0, r.newname.Dir())
	if err != nil {
		return false, err
	}
	isMove := now.src.attr.IsDir() || now.exists && now.dst.attr.IsDir()
	if !now.src.top || !newdir.inUpper(s) || isMove != move || r.flag&Exchange != 0 && !now.dst.top {
		return false, nil
	}
	if now.same {
		return true, nil
	}
	if err := s.lookBelow(ctx, &now, olddir, newdir); err != nil {
		return false, err
	}
	return true, o.renameLocked(ctx, now)
}

// renameLocked does the rename r.
//
// Preconditions: the locks of both directories are held, and that of moves
// exclusively if either file is a directory; what has to be copied up is;
// lookBelow was called.
func (o *Overlay) renameLocked(ctx context.Context, r rename) error {
	s := o.stack
	flag := r.flag
	if r.oldBelow || r.newBelow {
		flag |= WriteBack
	}
	if r.oldBelow && flag&Exchange == 0 {
		flag |= LeaveWhiteout
	}
	if r.src.attr.IsDir() {
		if err := o.keepBelow(ctx, r.oldname, r.newBelow); err != nil {
			return err
		}
	}
	if flag&Exchange != 0 && r.dst.attr.IsDir() {
		if err := o.keepBelow(ctx, r.newname, r.oldBelow); err != nil {
			return err
		}
	}
	defer s.cache.kill(0, r.oldname)
	defer s.cache.kill(0, r.newname)
	if err := s.upper.Rename(ctx, r.oldname, r.newname, flag); err != nil {
		return err
	}
	if r.exists && flag&Exchange == 0 {
		return o.dropIndexed(ctx, r.newname, r.dst)
	}
	return nil
}

// keepBelow prepares the directory dir of the upper to be moved: its lower part
// goes with it, and nothing else joins it. hides says whether a lower holds a
// file of the new name. Until the directory is moved nothing seems different.
func (o *Overlay) keepBelow(ctx context.Context, dir Name, hides bool) error {
	s := o.stack
	d, err := s.resolve(ctx, 0, dir)
	if err != nil {
		return err
	}
	if d.pure(s) {
		if !hides {
			return nil
		}
		return s.upper.SetOpaque(ctx, dir, true)
	}
	x, ok := As[Redirecter](any(s.upper))
	if !ok {
		return PathError("rename", dir, syscall.EXDEV)
	}
	return x.SetRedirect(ctx, dir, d.below)
}
