package disklayer

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// Getxattr implements overlay.Xattrer.
func (t *tree) Getxattr(_ context.Context, name overlay.Name, attr string) ([]byte, error) {
	if ownAttr(attr) {
		return nil, fail("getxattr", name, unix.ENODATA)
	}
	d, base, err := t.shownFile(name)
	if err != nil {
		return nil, fail("getxattr", name, err)
	}
	defer t.cache.put(d)
	value := make([]byte, 256)
	n, err := getxattr(d.fd, base, attr, value)
	if is(err, unix.ERANGE) {
		value = make([]byte, 1<<16)
		n, err = getxattr(d.fd, base, attr, value)
	}
	if err != nil {
		return nil, fail("getxattr", name, err)
	}
	return value[:n], nil
}

// Listxattr implements overlay.Xattrer.
func (t *tree) Listxattr(_ context.Context, name overlay.Name) ([]string, error) {
	d, base, err := t.shownFile(name)
	if err != nil {
		return nil, fail("listxattr", name, err)
	}
	defer t.cache.put(d)
	list := make([]byte, 1024)
	n, err := listxattr(d.fd, base, list)
	if is(err, unix.ERANGE) {
		list = make([]byte, 1<<16)
		n, err = listxattr(d.fd, base, list)
	}
	if err != nil {
		return nil, fail("listxattr", name, err)
	}
	var attrs []string
	for attr := range strings.SplitSeq(string(list[:n]), "\x00") {
		if attr != "" && !ownAttr(attr) {
			attrs = append(attrs, attr)
		}
	}
	return attrs, nil
}

// shownFile is parent for a name that must be shown. Where there are no whiteouts
// the call that follows tells whether it is.
func (t *tree) shownFile(name overlay.Name) (*dir, string, error) {
	d, base, err := t.parent(name)
	if err != nil || t.marks == nil {
		return d, base, err
	}
	if _, err := t.stat(d, base); err != nil {
		t.cache.put(d)
		return nil, "", err
	}
	return d, base, nil
}

// ownAttr reports whether attr is the overlay's own: *.overlay.*.
func ownAttr(attr string) bool {
	_, rest, _ := strings.Cut(attr, ".")
	return strings.HasPrefix(rest, "overlay.")
}

// Setxattr implements overlay.XattrSetter.
func (u *Upper) Setxattr(_ context.Context, name overlay.Name, attr string, value []byte, flags int) error {
	return u.changeAttr("setxattr", name, attr, func(at int, base string) error {
		return setxattr(at, base, attr, value, flags)
	})
}

// Removexattr implements overlay.XattrSetter.
func (u *Upper) Removexattr(_ context.Context, name overlay.Name, attr string) error {
	return u.changeAttr("removexattr", name, attr, func(at int, base string) error {
		return removexattr(at, base, attr)
	})
}

// changeAttr has fn change the attribute attr of name.
func (u *Upper) changeAttr(op string, name overlay.Name, attr string, fn func(at int, base string) error) error {
	if ownAttr(attr) {
		return fail(op, name, unix.EPERM)
	}
	d, base, err := u.shownFile(name)
	if err != nil {
		return fail(op, name, err)
	}
	defer u.cache.put(d)
	if err := u.step(op); err != nil {
		return fail(op, name, err)
	}
	if err := fn(d.fd, base); err != nil {
		return fail(op, name, err)
	}
	if attr == aclDefault || attr == aclAccess {
		u.forgetBirth(name)
	}
	return nil
}
