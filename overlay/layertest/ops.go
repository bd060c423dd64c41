package layertest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/overlay"
)

// An op is an operation that is done on a layer and on a model.
type op struct {
	kind opKind
	a, b overlay.Name
	flag overlay.RenameFlag
	off  int    // of a write; size of a truncation; mode of a chmod
	text string // of a write
}

type opKind int

const (
	opWrite opKind = iota // make the file if need be
	opExcl                // make a new file
	opTruncate
	opMkdir
	opSymlink
	opFIFO
	opRemove
	opRename
	opChmod
	opLink
)

func (o op) String() string {
	name := [...]string{"write", "create", "truncate", "mkdir", "symlink", "mkfifo", "remove", "rename", "chmod", "link"}[o.kind]
	return fmt.Sprintf("%s %s %s flag=%d off=%d %q", name, o.a, o.b, o.flag, o.off, o.text)
}

// drawOp returns a random operation that a layer with abilities can do.
func drawOp(t *rapid.T, abilities Ability) op {
	kinds := []opKind{opWrite, opExcl, opTruncate, opMkdir, opMkdir, opSymlink, opRemove, opRemove, opRename, opRename, opRename, opChmod}
	if abilities&Nodes != 0 {
		kinds = append(kinds, opFIFO)
	}
	if abilities&Links != 0 {
		kinds = append(kinds, opLink)
	}
	o := op{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), a: drawName(t, "a")}
	switch o.kind {
	case opWrite:
		o.off = rapid.SampledFrom([]int{0, 0, 1, 5000}).Draw(t, "off")
		o.text = rapid.SampledFrom([]string{"", "x", "yy", "zzz"}).Draw(t, "text")
	case opTruncate:
		o.off = rapid.SampledFrom([]int{0, 1, 5001}).Draw(t, "size")
	case opChmod:
		o.off = rapid.SampledFrom([]int{0o600, 0o711, 0o755}).Draw(t, "mode")
	case opRename:
		o.b = drawName(t, "b")
		o.flag = rapid.SampledFrom([]overlay.RenameFlag{0, 0, 0, overlay.NoReplace, overlay.Exchange}).Draw(t, "flag")
	case opLink:
		o.b = drawName(t, "b")
	}
	return o
}

// drawName returns one of few names, so that operations meet.
func drawName(t *rapid.T, label string) overlay.Name {
	base := rapid.SampledFrom([]string{"a", "b", "c"})
	depth := rapid.SampledFrom([]int{1, 1, 2, 2, 3}).Draw(t, label+" depth")
	parts := make([]string, depth)
	for i := range parts {
		parts[i] = base.Draw(t, label)
	}
	return overlay.Name(strings.Join(parts, "/"))
}

// do does o on l.
func (o op) do(l overlay.Layer) error {
	switch o.kind {
	case opWrite, opExcl:
		flag := overlay.Create
		if o.kind == opExcl {
			flag |= overlay.Excl
		}
		h, err := l.OpenFile(ctx, o.a, flag, overlay.Perm{Mode: 0o644})
		if err != nil {
			return err
		}
		if o.text != "" {
			if _, err := h.WriteAt([]byte(o.text), int64(o.off)); err != nil {
				return err
			}
		}
		if err := h.Flush(ctx); err != nil {
			return err
		}
		return h.Close()
	case opTruncate:
		_, err := l.SetAttr(ctx, o.a, overlay.SetAttr{Valid: overlay.SetSize, Size: int64(o.off)})
		return err
	case opMkdir:
		return l.Mkdir(ctx, o.a, perm0)
	case opSymlink:
		return l.Symlink(ctx, "target", o.a, perm0)
	case opFIFO:
		n, _ := overlay.As[overlay.Noder](any(l))
		return n.Mknod(ctx, o.a, overlay.TypeFIFO, 0, overlay.Perm{Mode: 0o644})
	case opRemove:
		return l.Remove(ctx, o.a)
	case opRename:
		return l.Rename(ctx, o.a, o.b, o.flag)
	case opChmod:
		_, err := l.SetAttr(ctx, o.a, overlay.SetAttr{Valid: overlay.SetMode, Mode: uint32(o.off)})
		return err
	default:
		n, _ := overlay.As[overlay.Linker](any(l))
		return n.Link(ctx, o.a, o.b)
	}
}

// do does o on m, if it can be done; else it returns every reason against it.
func (m *model) do(o op) []syscall.Errno {
	switch o.kind {
	case opWrite:
		return m.write(o)
	case opExcl:
		return m.create(o.a, newFile(overlay.TypeReg|0o644))
	case opTruncate:
		return m.truncate(o)
	case opMkdir:
		return m.create(o.a, newFile(overlay.TypeDir|0o755))
	case opSymlink:
		f := newFile(overlay.TypeLink | 0o777)
		f.target = "target"
		return m.create(o.a, f)
	case opFIFO:
		return m.create(o.a, newFile(overlay.TypeFIFO|0o644))
	case opRemove:
		return m.remove(o.a)
	case opRename:
		return m.rename(o)
	case opChmod:
		f, errno := m.find(o.a)
		if errno != 0 {
			return []syscall.Errno{errno}
		}
		if f.mode&overlay.TypeMask != overlay.TypeLink {
			f.mode = f.mode&overlay.TypeMask | uint32(o.off)
		}
		return nil
	default:
		return m.link(o)
	}
}

// notRegular returns the reasons against opening f for writing.
func notRegular(f *file) []syscall.Errno {
	switch {
	case f.isDir():
		return []syscall.Errno{syscall.EISDIR}
	case !f.isRegular():
		return []syscall.Errno{syscall.EINVAL}
	}
	return nil
}

func (m *model) write(o op) []syscall.Errno {
	f, errno := m.find(o.a)
	if errno == syscall.ENOENT {
		f = newFile(overlay.TypeReg | 0o644)
		if no := m.create(o.a, f); no != nil {
			return no
		}
	} else if errno != 0 {
		return []syscall.Errno{errno}
	}
	if no := notRegular(f); no != nil {
		return no
	}
	if o.text != "" {
		end := o.off + len(o.text)
		b := []byte(f.data)
		b = append(b, make([]byte, max(end-len(b), 0))...)
		copy(b[o.off:], o.text)
		f.data = string(b)
	}
	return nil
}

func (m *model) truncate(o op) []syscall.Errno {
	f, errno := m.find(o.a)
	if errno != 0 {
		return []syscall.Errno{errno}
	}
	if no := notRegular(f); no != nil {
		return no
	}
	f.data += strings.Repeat("\x00", max(o.off-len(f.data), 0))
	f.data = f.data[:o.off]
	return nil
}

// create makes f the file name.
func (m *model) create(name overlay.Name, f *file) []syscall.Errno {
	dir, errno := m.parent(name)
	switch {
	case errno != 0:
		return []syscall.Errno{errno}
	case dir.children[name.Base()] != nil:
		return []syscall.Errno{syscall.EEXIST}
	}
	m.set(name, f)
	return nil
}

func (m *model) remove(name overlay.Name) []syscall.Errno {
	f, errno := m.find(name)
	switch {
	case errno != 0:
		return []syscall.Errno{errno}
	case len(f.children) > 0:
		return []syscall.Errno{syscall.ENOTEMPTY}
	}
	m.set(name, nil)
	return nil
}

func (m *model) link(o op) []syscall.Errno {
	var no []syscall.Errno
	f, errno := m.find(o.a)
	switch {
	case errno != 0:
		no = append(no, errno)
	case f.isDir():
		no = append(no, syscall.EPERM)
	}
	dir, errno := m.parent(o.b)
	switch {
	case errno != 0:
		no = append(no, errno)
	case dir.children[o.b.Base()] != nil:
		no = append(no, syscall.EEXIST)
	}
	if no == nil {
		m.set(o.b, f)
	}
	return no
}

func (m *model) rename(o op) []syscall.Errno {
	no := m.against(o)
	if no != nil {
		return no
	}
	src, _ := m.find(o.a)
	dst, _ := m.find(o.b)
	switch {
	case src == dst:
	case o.flag&overlay.Exchange != 0:
		m.set(o.a, dst)
		m.set(o.b, src)
	default:
		m.set(o.b, src)
		m.set(o.a, nil)
	}
	return nil
}

// against returns the reasons against the rename o.
func (m *model) against(o op) (no []syscall.Errno) {
	src, errno := m.find(o.a)
	if errno != 0 {
		no = append(no, errno)
	}
	if _, errno := m.parent(o.b); errno != 0 {
		no = append(no, errno)
	}
	if o.a != o.b && o.b.Within(o.a) {
		no = append(no, syscall.EINVAL)
	}
	dst, errno := m.find(o.b)
	if o.flag&overlay.Exchange != 0 {
		if dst == nil {
			no = append(no, errno)
		}
		if o.a != o.b && o.a.Within(o.b) {
			no = append(no, syscall.EINVAL)
		}
		return no
	}
	if dst == nil {
		return no
	}
	if o.flag&overlay.NoReplace != 0 {
		no = append(no, syscall.EEXIST)
	}
	if src == nil || src == dst {
		return no
	}
	if dst.isDir() && !src.isDir() {
		no = append(no, syscall.EISDIR)
	}
	if !dst.isDir() && src.isDir() {
		no = append(no, syscall.ENOTDIR)
	}
	if len(dst.children) > 0 {
		no = append(no, syscall.ENOTEMPTY)
	}
	return no
}

// both does o on l and m, and checks that they agree whether it can be done,
// and why not. done is false if l refused it with one of may, which m does not
// know; m is then as before.
func (m *model) both(t TB, l overlay.Layer, o op, may ...syscall.Errno) (done bool) {
	t.Helper()
	err := o.do(l)
	errno := errnoOf(err)
	if err != nil && slices.Contains(may, errno) {
		return false
	}
	switch no := m.do(o); {
	case err == nil && no != nil:
		t.Fatalf("%v: succeeded, want %v", o, no)
	case err != nil && no == nil:
		t.Fatalf("%v: got %v, want success", o, err)
	case err != nil && !slices.Contains(no, errno):
		t.Fatalf("%v: got %v, want %v", o, err, no)
	}
	return err == nil
}
