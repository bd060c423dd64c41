//go:build linux

package fs

import (
	"time"

	"github.com/wsfs/wsfs/overlay"
)

// kept applies to a, the attributes of n's open file, what was set on the
// unlinked node alone.
func (n *node) kept(a overlay.Attr) overlay.Attr {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.open.Load()
	if o == nil || o.kept.Valid == 0 {
		return a
	}
	apply(&a, &o.kept)
	return a
}

// apply sets the fields of a that set says.
func apply(a *overlay.Attr, set *overlay.SetAttr) {
	if set.Valid&overlay.SetMode != 0 {
		a.Mode = a.Mode&^overlay.ModeMask | set.Mode
	}
	if set.Valid&overlay.SetUID != 0 {
		a.UID = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		a.GID = set.GID
	}
	if set.Valid&overlay.SetAtime != 0 {
		a.Atime = set.Atime
	}
	if set.Valid&overlay.SetMtime != 0 {
		a.Mtime = set.Mtime
	}
}

// keep adds set to what is set on the unlinked node alone.
func (o *opened) keep(set overlay.SetAttr) {
	k := &o.kept
	now := time.Now()
	if set.Valid&overlay.SetAtimeNow != 0 {
		set.Atime, set.Valid = now, set.Valid|overlay.SetAtime
	}
	if set.Valid&overlay.SetMtimeNow != 0 {
		set.Mtime, set.Valid = now, set.Valid|overlay.SetMtime
	}
	if set.Valid&overlay.SetMode != 0 {
		k.Mode = set.Mode
	}
	if set.Valid&overlay.SetUID != 0 {
		k.UID = set.UID
	}
	if set.Valid&overlay.SetGID != 0 {
		k.GID = set.GID
	}
	if set.Valid&overlay.SetAtime != 0 {
		k.Atime = set.Atime
	}
	if set.Valid&overlay.SetMtime != 0 {
		k.Mtime = set.Mtime
	}
	k.Valid |= set.Valid & (overlay.SetMode | overlay.SetUID | overlay.SetGID | overlay.SetAtime | overlay.SetMtime)
}
