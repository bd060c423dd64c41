//go:build linux

package fs_test

import (
	"os"
	"path/filepath"
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
