package disklayer

import (
	"golang.org/x/sys/unix"
)

// A mark is the name of an attribute that a layer keeps for itself, without
// its prefix.
type mark string

const (
	markOpaque   mark = "opaque"
	markRedirect mark = "redirect"
	markImpure   mark = "impure"
	markOrigin   mark = "wsfs.origin"
	markFormat   mark = "wsfs.format"
)

const (
	trustedPrefix = "trusted.overlay."
	userPrefix    = "user.overlay."
)

var marks = []mark{markOpaque, markRedirect, markImpure, markOrigin, markFormat}

// A markSet reads and writes marks in one format.
type markSet struct {
	attrs map[mark]string // names of attributes; immutable
	user  bool            // user.* attributes, with their restrictions; immutable
	extra *markFile       // immutable
	fault seam            // immutable
}

func newMarkSet(format Format, extra *markFile, fault seam) *markSet {
	prefix := trustedPrefix
	if format == FormatUser {
		prefix = userPrefix
	}
	m := &markSet{attrs: make(map[mark]string), user: format == FormatUser, extra: extra, fault: fault}
	for _, k := range marks {
		m.attrs[k] = prefix + string(k)
	}
	return m
}

// get returns the value of the mark k of base in the directory at; nil if it
// has none.
func (m *markSet) get(at int, base string, k mark) ([]byte, error) {
	value := make([]byte, 64)
	n, err := getxattr(at, base, m.attrs[k], value)
	for is(err, unix.ERANGE) {
		value = make([]byte, 1<<16)
		n, err = getxattr(at, base, m.attrs[k], value)
	}
	switch {
	case err == nil:
		return value[:n], nil
	case !noMark(err):
		return nil, err
	case m.extra.empty():
		return nil, nil
	}
	st, err := lstat(at, base)
	if err != nil {
		return nil, err
	}
	return m.extra.get(st.Ino, k), nil
}

// noMark reports whether err means that a file has no such attribute, or that
// it is one that cannot have a user.* attribute.
func noMark(err error) bool {
	return is(err, unix.ENODATA, unix.ENOTSUP, unix.EPERM, unix.EACCES)
}

// set gives base in the directory at the mark k. Where the file system refuses
// the attribute, the layer's mark file takes it.
func (m *markSet) set(at int, base string, k mark, value []byte) error {
	if err := m.fault.at("setxattr " + string(k)); err != nil {
		return err
	}
	err := setxattr(at, base, m.attrs[k], value, 0)
	if !m.refused(err, value) {
		return err
	}
	st, err := lstat(at, base)
	if err != nil {
		return err
	}
	return m.extra.set(st.Ino, k, value)
}

// refused reports whether err is the file system's refusal to hold value where
// the mark file can. Ext4 has one block for all attributes, and ENOSPC for more.
func (m *markSet) refused(err error, value []byte) bool {
	if is(err, unix.ENOSPC, unix.E2BIG, unix.ERANGE) {
		return len(value) > 1024
	}
	return m.user && is(err, unix.EPERM, unix.EACCES, unix.ENOTSUP)
}

// remove takes the mark k from base in the directory at. It is no error if
// there is none.
func (m *markSet) remove(at int, base string, k mark) error {
	if err := m.fault.at("removexattr " + string(k)); err != nil {
		return err
	}
	err := removexattr(at, base, m.attrs[k])
	if err != nil && !noMark(err) {
		return err
	}
	if m.extra.empty() {
		return nil
	}
	st, err := lstat(at, base)
	if err != nil {
		return err
	}
	return m.extra.remove(st.Ino, k)
}

// origin returns the mark wsfs.origin of base in the directory at, the zero
// origin if it has none.
func (m *markSet) origin(at int, base string, ino uint64) (origin, error) {
	var value [64]byte
	n, err := getxattr(at, base, m.attrs[markOrigin], value[:])
	switch {
	case err == nil:
		return parseOrigin(value[:n]), nil
	case is(err, unix.ERANGE):
		long, err := m.get(at, base, markOrigin)
		return originFrom(long), err
	case !noMark(err):
		return origin{}, err
	case m.extra.empty():
		return origin{}, nil
	}
	return originFrom(m.extra.get(ino, markOrigin)), nil
}

// originFrom is parseOrigin for a mark that may be missing.
func originFrom(value []byte) origin {
	if value == nil {
		return origin{}
	}
	return parseOrigin(value)
}

// keepReadable has the mark file hold the marks of base in the directory at,
// which is about to get the permissions mode: user.* attributes are beyond the
// reach of an owner who may not read or write the file.
func (m *markSet) keepReadable(at int, base string, ino uint64, mode uint32) error {
	if !m.user || mode&0o600 == 0o600 {
		return nil
	}
	for _, k := range marks {
		value, err := m.get(at, base, k)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := m.extra.set(ino, k, value); err != nil {
			return err
		}
	}
	return nil
}

// originOf is origin for the open file fd.
func (m *markSet) originOf(fd int, ino uint64) (origin, error) {
	var value [maxPending]byte
	n, err := unix.Fgetxattr(fd, m.attrs[markOrigin], value[:])
	switch {
	case err == nil:
		return parseOrigin(value[:n]), nil
	case !noMark(err):
		return origin{}, err
	}
	return originFrom(m.extra.get(ino, markOrigin)), nil
}
