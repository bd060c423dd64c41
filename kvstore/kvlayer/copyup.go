package kvlayer

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/overlay"
)

// CopyUp implements overlay.Upper. The content is uploaded before Install is
// called; put is one commit. Every copy is durable as the store is, so Durable,
// Layer and Name do not count.
func (l *Layer) CopyUp(ctx context.Context, name overlay.Name, c overlay.Copy) error {
	if err := name.Check("copyup"); err != nil {
		return err
	}
	lay := func(u *uploader) (content, error) { return content{}, nil }
	if c.Attr.IsRegular() {
		lay = func(u *uploader) (content, error) { return u.layOutHandle(c.From) }
	}
	up, err := l.upload(ctx, lay)
	if err != nil {
		return pathError("copyup", name, errnoOf(err))
	}
	install := func(t *tx, content content) error { return t.installCopy(name, c, content) }
	put := func() error {
		err := l.commitUpload(ctx, up, install)
		if errors.Is(err, errSwept) {
			err = l.putContent(ctx, lay, install)
		}
		return pathError("copyup", name, errnoOf(err))
	}
	if c.Install != nil {
		return c.Install(put)
	}
	return put()
}

// layOutHandle cuts what h reads. A file that shrinks meanwhile is begun anew.
func (u *uploader) layOutHandle(h overlay.Handle) (content, error) {
	a, err := h.Stat(u.ctx)
	if err != nil {
		return content{}, err
	}
	for size := a.Size; ; {
		if size > MaxFile {
			return content{}, syscall.EFBIG
		}
		short := size
		c, err := u.layOut(size, func(p []byte, off int64) error {
			n, err := h.ReadAt(p, off)
			if n < len(p) && errors.Is(err, io.EOF) {
				short = off + int64(n)
			}
			if n == len(p) {
				return nil
			}
			return err
		}, func(int64, uint8) (digest, bool) { return digest{}, false })
		if short == size {
			return c, err
		}
		size = short
	}
}

// installCopy makes the record and the entry of a copy.
func (t *tx) installCopy(name overlay.Name, c overlay.Copy, content content) error {
	at, err := locate(t.ctx, t, name)
	if err != nil {
		return err
	}
	was, err := t.entry(at)
	switch {
	case err != nil:
		return err
	case was != (entry{}) && !c.Replace:
		return syscall.EEXIST
	case was.typ == overlay.TypeDir:
		return syscall.EISDIR
	case was.exists():
		if err := t.remove(at, was, entry{}); err != nil {
			return err
		}
	}
	r := t.newRecord(c.Attr.Type(), c.Attr.Mode, c.Attr.UID, c.Attr.GID)
	r.atime, r.mtime, r.rdev = c.Attr.Atime, c.Attr.Mtime, c.Attr.Rdev
	r.origin, r.target, r.content = c.Origin, c.Target, content
	r.opaque = r.isDir() && was.whiteout
	for _, x := range c.Xattrs {
		if _, rest, _ := strings.Cut(x.Name, "."); !strings.HasPrefix(rest, "overlay.") {
			r.putXattr(x.Name, slices.Clone(x.Value))
		}
	}
	t.create(r)
	t.log(OpCreate, at, r)
	if c.Replace {
		return t.place(at, r)
	}
	// The directory's times stay: nothing has changed for who looks at it.
	r.links = []link{at}
	if err := t.setEntry(at, r.entry()); err != nil {
		return err
	}
	return t.count(at.dir, r, +1)
}
