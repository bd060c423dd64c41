package overlay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
)

// copyTries is how often a copy-up is begun anew because the file moved or
// changed under it.
const copyTries = 16

// tornTries is after how many of them a copy is taken though others wrote to
// the file meanwhile: a log that grows all the time would never be copied.
const tornTries = 4

// errMoved says that a name does not mean the file any more that was copied.
var errMoved = errors.New("overlay: the file moved while it was copied")

// CopyUp makes sure that the upper holds the file name and its parents, so that
// a change of it that follows is quick. It holds no lock while it copies.
func (o *Overlay) CopyUp(ctx context.Context, name Name) error {
	return o.copyUp(ctx, "copyup", name, true)
}

// copyUp is CopyUp; without data the copy of a regular file is empty.
func (o *Overlay) copyUp(ctx context.Context, op string, name Name, data bool) error {
	h, err := o.find(ctx, op, name)
	if err != nil {
		return err
	}
	return o.copyUpHit(ctx, op, name, h, data)
}

// copyUpDir is copyUp for a directory: what is remembered of it may do.
func (o *Overlay) copyUpDir(ctx context.Context, op string, dir Name) error {
	d, err := o.stack.resolve(ctx, 0, dir)
	if err != nil || d.inUpper(o.stack) {
		return about(op, dir, err)
	}
	return o.copyUp(ctx, op, dir, true)
}

// copyUpHit is copyUp of the file name, which is h or was lately.
func (o *Overlay) copyUpHit(ctx context.Context, op string, name Name, h hit, data bool) (err error) {
	var last error
	for try := range copyTries {
		if try > 0 {
			h, err = o.find(ctx, op, name)
		}
		if err != nil || h.top {
			return err
		}
		if o.stack.upper == nil {
			return PathError(op, name, syscall.EROFS)
		}
		last = o.copyHit(ctx, op, name, h, data, try >= tornTries)
		if last == nil {
			return nil
		}
		// Whoever else made a file there, or moved or removed its directory,
		// has changed what find answers.
		if !errors.Is(last, errMoved) && !isErrno(last, syscall.EEXIST) && !absent(last) {
			return about(op, name, last)
		}
	}
	if errors.Is(last, errMoved) {
		return PathError(op, name, syscall.EBUSY)
	}
	return about(op, name, last)
}

// copyHit copies the lower file h, which is at name, unless another call does:
// then it waits for that. With torn the file may be written to meanwhile.
func (o *Overlay) copyHit(ctx context.Context, op string, name Name, h hit, data, torn bool) error {
	if name != Root {
		if err := o.copyUpDir(ctx, op, name.Dir()); err != nil {
			return err
		}
	}
	leave, first, err := o.copies.enter(ctx, o.copyKey(name, h))
	if err != nil || !first {
		return err
	}
	defer leave()
	c, err := o.stack.describe(ctx, name, h, data)
	if err != nil {
		return err
	}
	if c.From != nil {
		defer c.From.Close()
	}
	return o.stack.install(ctx, name, c, func(put func() error) error {
		defer o.lock(name.Dir())()
		if err := o.stillAt(ctx, op, name, h); err != nil {
			return err
		}
		if !torn && changed(ctx, c.From, c.Attr) {
			return errMoved
		}
		if err := put(); err != nil {
			return err
		}
		o.stack.cache.kill(0, name)
		return nil
	})
}

// stillAt returns errMoved if name means another file than h. Whether it is gone
// from a layer that others change does not matter: it was there.
//
// Preconditions: the lock of name's directory is held.
func (o *Overlay) stillAt(ctx context.Context, op string, name Name, h hit) error {
	if o.locks.onlyMine(h.seen) {
		return nil
	}
	now, err := o.stack.find(ctx, op, name)
	if err == nil && now.place != h.place {
		err = errMoved
	}
	return err
}

// install has the upper make the copy c and put it at name by install. An error
// of that is returned as it is, whatever the upper makes of it.
func (s *stack) install(ctx context.Context, name Name, c Copy, install func(put func() error) error) error {
	var own error
	c.Install = func(put func() error) error {
		own = install(put)
		return own
	}
	if err := s.upper.CopyUp(ctx, name, c); err != nil {
		return cmp.Or(own, err)
	}
	return nil
}

// lock locks directories for a change of their entries.
func (o *Overlay) lock(dirs ...Name) (unlock func()) {
	at := make([]dirLock, 0, 4)
	for _, dir := range dirs {
		at = append(at, o.dirLock(dir))
	}
	return o.locks.change(false, at...)
}

// dirLock returns the lock of the directory dir.
func (o *Overlay) dirLock(dir Name) dirLock { return dirLock{o.Segment(dir), dir} }

// describe returns what a copy of the file h, which is at name, is made from.
func (s *stack) describe(ctx context.Context, name Name, h hit, data bool) (c Copy, err error) {
	l := &s.layers[h.layer]
	c = Copy{Attr: h.attr, Origin: s.show(h.attr).Ino, Layer: l.id, Name: h.name}
	if c.Attr.Nlink > 1 && !c.Attr.IsDir() {
		if _, ok := s.indexer(name); !ok {
			c.Origin = 0 // its other names go on showing the number
		}
	}
	if c.Xattrs, err = s.xattrs(ctx, h); err != nil {
		return c, err
	}
	switch h.attr.Type() {
	case TypeLink:
		c.Target, err = l.Readlink(ctx, h.name)
		return c, err
	case TypeReg:
	default:
		return c, nil
	}
	if !data {
		c.Attr.Size = 0
		c.From = emptyFile{c.Attr}
		return c, nil
	}
	if c.From, err = s.open(ctx, h); err != nil {
		return c, err
	}
	a, err := c.From.Stat(ctx)
	if err != nil {
		return c, errors.Join(err, c.From.Close())
	}
	a.Nlink, a.Origin = c.Attr.Nlink, c.Attr.Origin
	c.Attr = a
	return c, nil
}

// changed reports whether the file from is another than when a was read: then
// a copy of it may have parts of both.
func changed(ctx context.Context, from Handle, a Attr) bool {
	if from == nil || a.Source == Exclusive {
		return false
	}
	now, err := from.Stat(ctx)
	return err != nil || now.Size != a.Size || !now.Mtime.Equal(a.Mtime) || now.Version != a.Version
}

// xattrs returns the extended attributes of h but for those of layers.
func (s *stack) xattrs(ctx context.Context, h hit) ([]Xattr, error) {
	x := s.layers[h.layer].xattrs
	if x == nil {
		return nil, nil
	}
	names, err := x.Listxattr(ctx, h.name)
	if err != nil && !isErrno(err, syscall.ENOTSUP) {
		return nil, err
	}
	var all []Xattr
	for _, name := range names {
		if _, rest, _ := strings.Cut(name, "."); strings.HasPrefix(rest, "overlay.") {
			continue
		}
		value, err := x.Getxattr(ctx, h.name, name)
		if isErrno(err, syscall.ENODATA) {
			continue // it was taken away meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Xattr{name, value})
	}
	return all, nil
}

// An emptyFile is the content of a file that is copied only to be truncated.
type emptyFile struct{ attr Attr }

func (f emptyFile) ReadAt([]byte, int64) (int, error)  { return 0, io.EOF }
func (f emptyFile) Stat(context.Context) (Attr, error) { return f.attr, nil }
func (f emptyFile) Close() error                       { return nil }

// copies are the copy-ups that run, by what is copied.
type copies struct {
	mu      sync.Mutex
	running map[copyKey]chan struct{} // guarded by mu; closed at the end
}

// A copyKey is a name; or, for a file with several, its number.
type copyKey struct {
	name Name
	ino  uint64
}

// copyKey returns the key of the file h at name.
func (o *Overlay) copyKey(name Name, h hit) copyKey {
	if h.attr.Nlink > 1 && !h.attr.IsDir() {
		return copyKey{ino: o.stack.show(h.attr).Ino}
	}
	return copyKey{name: name}
}

// enter makes the caller the one who copies key, until it calls leave. If
// there is one already, it waits for the end of that; first is then false.
func (c *copies) enter(ctx context.Context, key copyKey) (leave func(), first bool, err error) {
	c.mu.Lock()
	if done := c.running[key]; done != nil {
		c.mu.Unlock()
		select {
		case <-done:
			return nil, false, errMoved
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	if c.running == nil {
		c.running = make(map[copyKey]chan struct{})
	}
	done := make(chan struct{})
	c.running[key] = done
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, key)
		close(done)
	}, true, nil
}
