//go:build linux

package integration

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree is all that can be seen of the files below a directory: a line of
// attributes and content for each path.
type tree map[string]string

// A view says what of a tree counts.
type view struct {
	times    bool // modification times
	dirLinks bool // link counts of directories
	anyLinks bool // link counts do not count
	skip     []string
}

// everything is what must not change of a project.
var everything = view{times: true, dirLinks: true}

// treeOf returns the tree below dir as v sees it. Paths in v.skip, and what is
// below them, do not count.
func treeOf(t *testing.T, dir string, v view) tree {
	t.Helper()
	result, err := readTree(dir, v)
	if err != nil {
		t.Fatalf("tree of %s: %v", dir, err)
	}
	return result
}

// readTree is treeOf for a tree that may change meanwhile: after an error the
// tree is not whole.
func readTree(dir string, v view) (tree, error) {
	result := make(tree)
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if slices.Contains(v.skip, rel) {
			if d.IsDir() {
				return iofs.SkipDir
			}
			return nil
		}
		result[rel], err = describe(path, v)
		return err
	})
	return result, err
}

// describe returns the line of the file path.
func describe(path string, v view) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", fmt.Errorf("lstat %s: %w", path, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mode %o owner %d:%d", st.Mode, st.Uid, st.Gid)
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !v.anyLinks && (!isDir || v.dirLinks) {
		fmt.Fprintf(&b, " nlink %d", st.Nlink)
	}
	if v.times {
		fmt.Fprintf(&b, " mtime %d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		sum, err := contentSum(path, st.Size)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " size %d sha256 %s", st.Size, sum)
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " -> %q", target)
	}
	xattrs, err := xattrsOf(path)
	if err != nil {
		return "", err
	}
	return b.String() + xattrs, nil
}

// contentSum returns the digest of the file path, and an error if there are
// not exactly size bytes in it.
func contentSum(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("%s: stat says %d bytes, read %d", path, size, n)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// xattrsOf returns the extended attributes of path in words.
func xattrsOf(path string) (string, error) {
	list := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, list)
	if err == unix.ENOTSUP {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("llistxattr %s: %w", path, err)
	}
	names := strings.FieldsFunc(string(list[:n]), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return "", fmt.Errorf("lgetxattr %s of %s: %w", name, path, err)
		}
		fmt.Fprintf(&b, " %s=%x", name, value[:n])
	}
	return b.String(), nil
}

// diff describes in which paths got differs from want, "" if in none.
func (want tree) diff(got tree) string {
	var b bytes.Buffer
	paths := slices.Sorted(maps.Keys(want))
	for p := range got {
		if _, ok := want[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	differ := 0
	for _, p := range paths {
		w, g := want[p], got[p]
		if w == g {
			continue
		}
		if differ++; differ <= 20 {
			fmt.Fprintf(&b, "%s\n  want %s\n  got  %s\n", p, or(w, "nothing"), or(g, "nothing"))
		}
	}
	if differ > 20 {
		fmt.Fprintf(&b, "and %d more\n", differ-20)
	}
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
