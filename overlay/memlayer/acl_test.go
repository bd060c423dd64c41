package memlayer

import (
	"bytes"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

// FuzzACL checks that every ACL which is accepted is kept as it is, and goes
// along with changes of the mode.
func FuzzACL(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0})
	f.Add(encodeACL([]aclEntry{{aclUserObj, 7, ^uint32(0)}, {aclGroupObj, 5, ^uint32(0)}, {aclOther, 5, ^uint32(0)}}))
	f.Add(encodeACL([]aclEntry{{aclUserObj, 7, ^uint32(0)}, {aclUser, 6, 1000}, {aclUser, 4, 1001},
		{aclGroupObj, 5, ^uint32(0)}, {aclGroup, 1, 5}, {aclMask, 7, ^uint32(0)}, {aclOther, 0, ^uint32(0)}}))
	f.Fuzz(func(t *testing.T, value []byte) {
		acl, ok := parseACL(value)
		if !ok {
			return
		}
		if got := encodeACL(acl); !bytes.Equal(got, value) {
			t.Errorf("encoded anew: got %x, want %x", got, value)
		}
		n := newNode(overlay.TypeReg)
		if err := n.setACL("f", accessACL, value); err != nil {
			t.Fatal(err)
		}
		n.mode = overlay.TypeReg | 0o640
		n.modeToACL()
		if kept := n.xattrs[accessACL]; kept != nil {
			if _, ok := parseACL(kept); !ok {
				t.Errorf("after a change of the mode: %x is no ACL", kept)
			}
		}
		dir, child := newNode(overlay.TypeDir), newNode(overlay.TypeDir|0o777)
		dir.setXattr(defaultACL, value)
		if !child.inheritACL(dir) || !bytes.Equal(child.xattrs[defaultACL], value) {
			t.Errorf("a default ACL is not inherited")
		}
	})
}
