package overlay

import (
	"context"
	"syscall"
)

// SetAttr implements Layer. A lower file is copied up, without its data if it
// is cut to nothing.
func (o *Overlay) SetAttr(ctx context.Context, name Name, set SetAttr) (Attr, error) {
	h, err := o.find(ctx, "setattr", name)
	if err != nil {
		return Attr{}, err
	}
	if set.Valid&SetSize != 0 {
		switch {
		case h.attr.IsDir():
			return Attr{}, PathError("setattr", name, syscall.EISDIR)
		case !h.attr.IsRegular(), set.Size < 0:
			return Attr{}, PathError("setattr", name, syscall.EINVAL)
		}
	}
	data := set.Valid&SetSize == 0 || set.Size != 0
	if err := o.copyUpHit(ctx, "setattr", name, h, data); err != nil {
		return Attr{}, err
	}
	a, err := o.stack.upper.SetAttr(ctx, name, set)
	if err != nil {
		return Attr{}, about("setattr", name, err)
	}
	return o.attr(ctx, "setattr", name, hit{place: place{0, name}, attr: a, top: true})
}

// Setxattr implements XattrSetter.
func (o *Overlay) Setxattr(ctx context.Context, name Name, attr string, value []byte, flags int) error {
	x, err := o.xattrSetter(ctx, "setxattr", name)
	if err != nil {
		return err
	}
	return about("setxattr", name, x.Setxattr(ctx, name, attr, value, flags))
}

// Removexattr implements XattrSetter.
func (o *Overlay) Removexattr(ctx context.Context, name Name, attr string) error {
	if _, err := o.Getxattr(ctx, name, attr); err != nil {
		return about("removexattr", name, err)
	}
	x, err := o.xattrSetter(ctx, "removexattr", name)
	if err != nil {
		return err
	}
	return about("removexattr", name, x.Removexattr(ctx, name, attr))
}

// xattrSetter returns the upper, when it holds name.
func (o *Overlay) xattrSetter(ctx context.Context, op string, name Name) (XattrSetter, error) {
	if o.stack.upper == nil {
		return nil, PathError(op, name, syscall.EROFS)
	}
	x, ok := As[XattrSetter](any(o.stack.upper))
	if !ok {
		return nil, PathError(op, name, syscall.ENOTSUP)
	}
	return x, o.copyUp(ctx, op, name, true)
}
