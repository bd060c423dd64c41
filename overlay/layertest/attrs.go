package layertest

import (
	"bytes"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// testPerm is fault 13: modes are those that were asked for.
func (s suite) testPerm(t *testing.T) {
	u, _ := s.make(t)
	for _, c := range []struct{ mode, umask, want uint32 }{
		{0o666, 0, 0o666}, {0o777, 0o022, 0o755}, {0o555, 0, 0o555}, {0, 0, 0}, {0o6755, 0, 0o6755}, {0o1777, 0, 0o1777}, {0o111, 0, 0o111},
	} {
		perm := overlay.Perm{Mode: c.mode, Umask: c.umask}
		ok(t, "Mkdir", u.Mkdir(ctx, "d", perm))
		h, err := u.OpenFile(ctx, "f", overlay.Create, perm)
		ok(t, "OpenFile", err)
		if _, err := h.WriteAt([]byte("x"), 0); err != nil {
			t.Errorf("WriteAt to a file just made with mode %o: %v", c.mode, err)
		}
		finish(t, h)
		for _, name := range []overlay.Name{"d", "f"} {
			if got := lstat(t, u, name).Mode & overlay.ModeMask; got != c.want {
				t.Errorf("%q made with mode %o, umask %o has mode %o, want %o", name, c.mode, c.umask, got, c.want)
			}
			ok(t, "Remove", u.Remove(ctx, name))
		}
	}
}

func (s suite) testOwner(t *testing.T) {
	u, _ := s.make(t)
	perm := overlay.Perm{Mode: 0o755, UID: 1234, GID: 5678}
	ok(t, "Mkdir", u.Mkdir(ctx, "d", perm))
	ok(t, "Symlink", u.Symlink(ctx, "x", "l", perm))
	h, err := u.OpenFile(ctx, "f", overlay.Create, perm)
	ok(t, "OpenFile", err)
	finish(t, h)
	for _, name := range []overlay.Name{"d", "l", "f"} {
		if a := lstat(t, u, name); a.UID != 1234 || a.GID != 5678 {
			t.Errorf("%q belongs to %d:%d, want 1234:5678", name, a.UID, a.GID)
		}
	}
	_, err = u.SetAttr(ctx, "d", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o2755})
	ok(t, "SetAttr", err)
	perm.GID = 1
	ok(t, "Mkdir", u.Mkdir(ctx, "d/sub", perm))
	h, err = u.OpenFile(ctx, "d/f", overlay.Create, perm)
	ok(t, "OpenFile", err)
	finish(t, h)
	if a := lstat(t, u, "d/sub"); a.GID != 5678 || a.Mode&overlay.ModeSetGID == 0 {
		t.Errorf("a directory in a set-group-id directory: got group %d, mode %o", a.GID, a.Mode)
	}
	if a := lstat(t, u, "d/f"); a.GID != 5678 || a.Mode&overlay.ModeSetGID != 0 {
		t.Errorf("a file in a set-group-id directory: got group %d, mode %o", a.GID, a.Mode)
	}
	a, err := u.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetUID | overlay.SetGID, UID: 7, GID: 8})
	if err != nil || a.UID != 7 || a.GID != 8 {
		t.Errorf("SetAttr of the owner: got %d:%d, %v", a.UID, a.GID, err)
	}
}

// acl encodes an access or default ACL: user rwx, uid 1000 r-x, group r-x,
// mask and other as given.
func acl(mask, other byte) []byte {
	const no = 0xff
	e := func(tag, perm byte, id ...byte) []byte { return append([]byte{tag, 0, perm, 0}, id...) }
	none := []byte{no, no, no, no}
	return slices.Concat([]byte{2, 0, 0, 0}, e(1, 7, none...), e(2, 5, 0xe8, 3, 0, 0),
		e(4, 5, none...), e(16, mask, none...), e(32, other, none...))
}

func (s suite) testDefaultACL(t *testing.T) {
	u, _ := s.make(t)
	x := as[overlay.XattrSetter](t, u)
	mkdir(t, u, "d")
	ok(t, "Setxattr", x.Setxattr(ctx, "d", "system.posix_acl_default", acl(7, 4), 0))
	perm := overlay.Perm{Mode: 0o666, Umask: 0o077}
	h, err := u.OpenFile(ctx, "d/f", overlay.Create, perm)
	ok(t, "OpenFile", err)
	finish(t, h)
	if got := lstat(t, u, "d/f").Mode & 0o777; got != 0o664 {
		t.Errorf("a file under a default ACL has mode %o, want 664", got)
	}
	ok(t, "Mkdir", u.Mkdir(ctx, "d/sub", overlay.Perm{Mode: 0o777, Umask: 0o077}))
	if got, err := x.Getxattr(ctx, "d/sub", "system.posix_acl_default"); !bytes.Equal(got, acl(7, 4)) {
		t.Errorf("the default ACL of a new directory: got %x, %v", got, err)
	}
	if got := lstat(t, u, "d/sub").Mode & 0o777; got != 0o774 {
		t.Errorf("a directory under a default ACL has mode %o, want 774", got)
	}
	ok(t, "Whiteout", u.Whiteout(ctx, "d/w"))
	ok(t, "Mkdir", u.Mkdir(ctx, "d/w", overlay.Perm{Mode: 0o777, Umask: 0o077}))
	if got := lstat(t, u, "d/w").Mode & 0o777; got != 0o774 {
		t.Errorf("a directory over a whiteout under a default ACL has mode %o, want 774", got)
	}
	_, err = u.SetAttr(ctx, "d/f", overlay.SetAttr{Valid: overlay.SetMode, Mode: 0o600})
	ok(t, "SetAttr", err)
	got, err := x.Getxattr(ctx, "d/f", "system.posix_acl_access")
	if err != nil || len(got) != len(acl(0, 0)) || got[4+3*8+2] != 0 {
		t.Errorf("the ACL's mask after a chmod to 600: got %x, %v, want 0", got, err)
	}
}

// testSetAttr is fault 15: no time loses its nanoseconds.
func (s suite) testSetAttr(t *testing.T) {
	u, _ := s.make(t)
	write(t, u, "f", "0123456789")
	mkdir(t, u, "d")
	ok(t, "Symlink", u.Symlink(ctx, "x", "l", perm0))
	at, mt := time.Unix(1704164645, 123456789), time.Unix(-1, 999999999)
	for _, name := range []overlay.Name{"f", "d", "l", overlay.Root} {
		a, err := u.SetAttr(ctx, name, overlay.SetAttr{Valid: overlay.SetAtime | overlay.SetMtime, Atime: at, Mtime: mt})
		ok(t, "SetAttr", err)
		b := lstat(t, u, name)
		if !a.Mtime.Equal(mt) || !b.Mtime.Equal(mt) || !a.Atime.Equal(at) || !b.Atime.Equal(at) {
			t.Errorf("times of %q: SetAttr says %v, %v, Lstat %v, %v, want %v, %v", name, a.Atime, a.Mtime, b.Atime, b.Mtime, at, mt)
		}
	}
	now := time.Now()
	a, err := u.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetMtimeNow})
	if err != nil || a.Mtime.Before(now.Add(-time.Minute)) || !a.Atime.Equal(at) {
		t.Errorf("SetMtimeNow: got mtime %v, atime %v, %v", a.Mtime, a.Atime, err)
	}
	a, err = u.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetSize | overlay.SetMode, Size: 4, Mode: 0o4711})
	if err != nil || a.Size != 4 || a.Mode&overlay.ModeMask != 0o4711 {
		t.Errorf("SetSize and SetMode: got size %d, mode %o, %v", a.Size, a.Mode, err)
	}
	_, err = u.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetSize, Size: 6})
	ok(t, "SetAttr", err)
	wantRead(t, u, "f", "0123\x00\x00")
	_, err = u.SetAttr(ctx, "x", overlay.SetAttr{Valid: overlay.SetMode})
	want(t, "SetAttr of nothing", err, syscall.ENOENT)
	_, err = u.SetAttr(ctx, "d", overlay.SetAttr{Valid: overlay.SetSize})
	want(t, "SetSize of a directory", err, syscall.EISDIR)
}

func (s suite) testClearPrivileges(t *testing.T) {
	u, _ := s.make(t)
	for _, c := range []struct{ mode, want uint32 }{{0o6777, 0o777}, {0o6767, 0o2767}, {0o755, 0o755}} {
		h, err := u.OpenFile(ctx, "f", overlay.Create, overlay.Perm{Mode: c.mode})
		ok(t, "OpenFile", err)
		a, err := h.SetAttr(ctx, overlay.SetAttr{Valid: overlay.ClearPrivileges})
		if got := a.Mode & overlay.ModeMask; err != nil || got != c.want {
			t.Errorf("ClearPrivileges of mode %o: got %o, %v, want %o", c.mode, got, err, c.want)
		}
		finish(t, h)
		ok(t, "Remove", u.Remove(ctx, "f"))
	}
}

func (s suite) testXattr(t *testing.T) {
	u, _ := s.make(t)
	x := as[overlay.XattrSetter](t, u)
	write(t, u, "f", "")
	set := func(attr, value string, flags int) error { return x.Setxattr(ctx, "f", attr, []byte(value), flags) }
	want(t, "replacing nothing", set("user.a", "1", 2), syscall.ENODATA)
	ok(t, "creating", set("user.a", "\x00\xff", 1))
	want(t, "creating again", set("user.a", "1", 1), syscall.EEXIST)
	ok(t, "replacing", set("user.a", "2", 2))
	ok(t, "setting empty", set("user.b", "", 0))
	if got, err := x.Getxattr(ctx, "f", "user.a"); string(got) != "2" || err != nil {
		t.Errorf("Getxattr: got %q, %v, want 2", got, err)
	}
	if got, err := x.Getxattr(ctx, "f", "user.b"); len(got) != 0 || err != nil {
		t.Errorf("Getxattr of an empty one: got %q, %v", got, err)
	}
	if got, err := x.Listxattr(ctx, "f"); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), []string{"user.a", "user.b"}) {
		t.Errorf("Listxattr: got %q, %v", got, err)
	}
	_, err := x.Getxattr(ctx, "f", "user.c")
	want(t, "Getxattr of none", err, syscall.ENODATA)
	want(t, "Removexattr of none", x.Removexattr(ctx, "f", "user.c"), syscall.ENODATA)
	ok(t, "Removexattr", x.Removexattr(ctx, "f", "user.a"))
	for _, attr := range []string{"user.overlay.opaque", "trusted.overlay.opaque"} {
		if set(attr, "y", 0) == nil {
			t.Errorf("%s can be set", attr)
		}
		if got, err := x.Getxattr(ctx, "f", attr); err == nil {
			t.Errorf("%s can be read: %q", attr, got)
		}
	}
	_, err = x.Getxattr(ctx, "x", "user.a")
	want(t, "Getxattr of no file", err, syscall.ENOENT)
	ok(t, "Rename", u.Rename(ctx, "f", "g", 0))
	if got, err := x.Listxattr(ctx, "g"); err != nil || !slices.Equal(got, []string{"user.b"}) {
		t.Errorf("Listxattr after Rename: got %q, %v, want user.b", got, err)
	}
}
