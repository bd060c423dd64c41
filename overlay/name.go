package overlay

import (
	iofs "io/fs"
	"strings"
	"syscall"
)

// A Name is the place of a file in a tree: components joined by single
// slashes, without a leading or trailing one. The root is Root. Names are
// bytes, not text: any byte but NUL and slash may occur in a component. A
// component has 1 to MaxComponent bytes and is never "." or ".."; the whole
// may be of any length, since no layer joins it to a host path.
type Name string

// Root is the name of a tree's root directory.
const Root Name = "."

// MaxComponent is the longest component in bytes (NAME_MAX).
const MaxComponent = 255

// Join returns the name of child in the directory n. It does not check child.
func (n Name) Join(child string) Name {
	if n == Root {
		return Name(child)
	}
	return n + "/" + Name(child)
}

// Split returns the directory that n is in and n's last component. The root
// is in itself, and its last component is ".".
func (n Name) Split() (dir Name, base string) {
	i := strings.LastIndexByte(string(n), '/')
	if i < 0 {
		return Root, string(n)
	}
	return n[:i], string(n[i+1:])
}

// Dir returns the directory that n is in.
func (n Name) Dir() Name {
	dir, _ := n.Split()
	return dir
}

// Base returns the last component of n.
func (n Name) Base() string {
	_, base := n.Split()
	return base
}

// Within reports whether n is dir or lies below it.
func (n Name) Within(dir Name) bool {
	if dir == Root || n == dir {
		return true
	}
	return len(n) > len(dir) && n[len(dir)] == '/' && n[:len(dir)] == dir
}

// Check returns nil if n is well formed, and a PathError otherwise:
// ENAMETOOLONG for a component of more than MaxComponent bytes, else EINVAL.
func (n Name) Check(op string) error {
	if n == Root {
		return nil
	}
	for c := range strings.SplitSeq(string(n), "/") {
		switch {
		case len(c) > MaxComponent:
			return PathError(op, n, syscall.ENAMETOOLONG)
		case c == "", c == ".", c == "..", strings.IndexByte(c, 0) >= 0:
			return PathError(op, n, syscall.EINVAL)
		}
	}
	return nil
}

// PathError returns the error of op on the file name. errno describes that
// file, never a store or a layer behind it.
func PathError(op string, name Name, errno syscall.Errno) error {
	return &iofs.PathError{Op: op, Path: string(name), Err: errno}
}
