//go:build linux

package fs_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// capNetRaw is security.capability of a file with cap_net_raw, effective.
var capNetRaw = []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// TestCapabilitiesAfterCreate lets CREATE find files that are there already, as
// it does when somebody else was faster: what it says of their capabilities
// afterwards is what the layer says.
func TestCapabilitiesAfterCreate(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	for _, flags := range []uint32{unix.O_WRONLY, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_APPEND} {
		upper, host, project := diskLayers(t, seed{"lower", 0o644, "text"}, seed{"up", 0o644, "text"})
		layer := overlay.New(upper, host)
		for _, name := range []string{"lower", "up"} {
			must(t, unix.Setxattr(filepath.Join(project, name), "security.capability", capNetRaw, 0))
		}
		xattrs, ok := overlay.As[overlay.XattrSetter](layer)
		if !ok {
			t.Fatal("the layer sets no attributes")
		}
		must(t, xattrs.Setxattr(t.Context(), "up", "user.copied", []byte("up"), 0))
		f := fs.New(layer, fs.Options{})
		f.Init(nil)
		for _, name := range []string{"new", "lower", "up"} {
			var out fuse.CreateOut
			check(t, f.Create(nil, &fuse.CreateIn{InHeader: fuse.InHeader{NodeId: 1}, Flags: flags, Mode: 0o644}, name, &out))
			has := func() bool {
				_, st := f.GetXAttr(nil, &fuse.InHeader{NodeId: out.NodeId}, "security.capability", make([]byte, 64))
				return st.Ok()
			}
			_, err := xattrs.Getxattr(t.Context(), overlay.Name(name), "security.capability")
			if got, want := has(), err == nil; got != want {
				t.Errorf("flags %#x: %s has capabilities: got %v, want %v (%v)", flags, name, got, want, err)
			}
			set := fuse.SetXAttrIn{InHeader: fuse.InHeader{NodeId: out.NodeId}, Size: uint32(len(capNetRaw))}
			check(t, f.SetXAttr(nil, &set, "security.capability", capNetRaw))
			if !has() {
				t.Errorf("flags %#x: %s has no capabilities after it got some", flags, name)
			}
			f.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
		}
	}
}

// TestNoACLIsRemembered asks for an ACL before and after it is set and removed.
func TestNoACLIsRemembered(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	tree, _ := diskTree(t, seed{"lower", 0o644, "text"})
	f := fs.New(tree, fs.Options{})
	f.Init(nil)
	acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, // version; owner rw; user 1000 r
		4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255} // group r, mask r, others r
	for _, id := range []uint64{1, look(t, f, 1, "lower").NodeId} {
		has := func() bool {
			_, st := f.GetXAttr(nil, &fuse.InHeader{NodeId: id}, "system.posix_acl_access", make([]byte, 64))
			return st.Ok()
		}
		for round := range 3 {
			for range 2 {
				if has() {
					t.Errorf("node %d, round %d: has an ACL before it was set", id, round)
				}
			}
			set := fuse.SetXAttrIn{InHeader: fuse.InHeader{NodeId: id}, Size: uint32(len(acl))}
			check(t, f.SetXAttr(nil, &set, "system.posix_acl_access", acl))
			if !has() {
				t.Errorf("node %d, round %d: has no ACL after it was set", id, round)
			}
			check(t, f.RemoveXAttr(nil, &fuse.InHeader{NodeId: id}, "system.posix_acl_access"))
		}
	}
}

// TestCapabilitiesSetMeanwhile gives a file capabilities while others cut it and
// write to it: afterwards it is known to have those that it has.
func TestCapabilitiesSetMeanwhile(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	tree, _ := diskTree(t)
	xattrs, _ := overlay.As[overlay.XattrSetter](tree)
	f := fs.New(tree, fs.Options{})
	f.Init(nil)
	create := fuse.CreateIn{InHeader: fuse.InHeader{NodeId: 1}, Flags: unix.O_WRONLY | unix.O_TRUNC, Mode: 0o644}
	var out fuse.CreateOut
	check(t, f.Create(nil, &create, "f", &out))
	for range 500 {
		var others sync.WaitGroup
		others.Go(func() {
			var again fuse.CreateOut
			if st := f.Create(nil, &create, "f", &again); st.Ok() {
				f.Release(nil, &fuse.ReleaseIn{Fh: again.Fh})
			}
		})
		others.Go(func() {
			in := fuse.WriteIn{InHeader: fuse.InHeader{NodeId: out.NodeId}, Fh: out.Fh, Size: 1, WriteFlags: fuse.WRITE_KILL_SUIDGID}
			f.Write(nil, &in, []byte("x"))
		})
		others.Go(func() {
			set := fuse.SetXAttrIn{InHeader: fuse.InHeader{NodeId: out.NodeId}, Size: uint32(len(capNetRaw))}
			f.SetXAttr(nil, &set, "security.capability", capNetRaw)
		})
		others.Wait()
		_, st := f.GetXAttr(nil, &fuse.InHeader{NodeId: out.NodeId}, "security.capability", make([]byte, 64))
		_, err := xattrs.Getxattr(t.Context(), "f", "security.capability")
		if st.Ok() != (err == nil) {
			t.Fatalf("capabilities: told %v, there %v", st, err)
		}
	}
}
