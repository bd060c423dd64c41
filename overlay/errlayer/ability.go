package errlayer

import (
	"context"

	"github.com/wsfs/wsfs/overlay"
)

// Link implements overlay.Linker.
func (l *Layer) Link(ctx context.Context, oldname, newname overlay.Name) error {
	return ability(l, "link", newname, func(v overlay.Linker) error { return v.Link(ctx, oldname, newname) })
}

// Getxattr implements overlay.Xattrer.
func (l *Layer) Getxattr(ctx context.Context, name overlay.Name, attr string) (value []byte, err error) {
	err = ability(l, "getxattr", name, func(v overlay.Xattrer) error {
		value, err = v.Getxattr(ctx, name, attr)
		return err
	})
	return value, err
}

// Listxattr implements overlay.Xattrer.
func (l *Layer) Listxattr(ctx context.Context, name overlay.Name) (names []string, err error) {
	err = ability(l, "listxattr", name, func(v overlay.Xattrer) error {
		names, err = v.Listxattr(ctx, name)
		return err
	})
	return names, err
}

// Setxattr implements overlay.XattrSetter.
func (l *Layer) Setxattr(ctx context.Context, name overlay.Name, attr string, value []byte, flags int) error {
	return ability(l, "setxattr", name, func(v overlay.XattrSetter) error {
		return v.Setxattr(ctx, name, attr, value, flags)
	})
}

// Removexattr implements overlay.XattrSetter.
func (l *Layer) Removexattr(ctx context.Context, name overlay.Name, attr string) error {
	return ability(l, "removexattr", name, func(v overlay.XattrSetter) error {
		return v.Removexattr(ctx, name, attr)
	})
}

// Mknod implements overlay.Noder.
func (l *Layer) Mknod(ctx context.Context, name overlay.Name, typ uint32, rdev uint64, perm overlay.Perm) error {
	return ability(l, "mknod", name, func(v overlay.Noder) error { return v.Mknod(ctx, name, typ, rdev, perm) })
}

// Tmpfile implements overlay.Tmpfiler. The handle is the upper's own.
func (l *Layer) Tmpfile(ctx context.Context, dir overlay.Name, perm overlay.Perm) (h overlay.WriteHandle, err error) {
	err = ability(l, "tmpfile", dir, func(v overlay.Tmpfiler) error {
		h, err = v.Tmpfile(ctx, dir, perm)
		return err
	})
	return h, err
}

// LinkHandle implements overlay.Tmpfiler.
func (l *Layer) LinkHandle(ctx context.Context, h overlay.WriteHandle, newname overlay.Name) error {
	return ability(l, "linkhandle", newname, func(v overlay.Tmpfiler) error { return v.LinkHandle(ctx, h, newname) })
}

// Indexed implements overlay.Indexer. It cannot fail.
func (l *Layer) Indexed(origin uint64) bool {
	x, ok := overlay.As[overlay.Indexer](any(l.in))
	return ok && x.Indexed(origin)
}

// LinkIndexed implements overlay.Indexer.
func (l *Layer) LinkIndexed(ctx context.Context, origin uint64, name overlay.Name) error {
	return ability(l, "linkindexed", name, func(v overlay.Indexer) error { return v.LinkIndexed(ctx, origin, name) })
}

// DropIndexed implements overlay.Indexer.
func (l *Layer) DropIndexed(ctx context.Context, origin uint64) error {
	return ability(l, "dropindexed", overlay.Root, func(v overlay.Indexer) error { return v.DropIndexed(ctx, origin) })
}

// OpenIndexed implements overlay.IndexOpener.
func (l *Layer) OpenIndexed(ctx context.Context, origin uint64) (h overlay.Handle, err error) {
	err = ability(l, "openindexed", overlay.Root, func(v overlay.IndexOpener) error {
		h, err = v.OpenIndexed(ctx, origin)
		return err
	})
	return h, err
}

// SetRedirect implements overlay.Redirecter.
func (l *Layer) SetRedirect(ctx context.Context, name, target overlay.Name) error {
	return ability(l, "setredirect", name, func(v overlay.Redirecter) error { return v.SetRedirect(ctx, name, target) })
}

// SyncAll implements overlay.Syncer.
func (l *Layer) SyncAll(ctx context.Context) error {
	return ability(l, "syncall", overlay.Root, func(v overlay.Syncer) error { return v.SyncAll(ctx) })
}

// A reader is a handle whose reads fail as the plan says.
type reader struct {
	overlay.Handle
	plan *Plan
	name overlay.Name
}

// Unwrap returns the upper's handle.
func (h reader) Unwrap() any { return h.Handle }

// ReadAt implements io.ReaderAt.
func (h reader) ReadAt(p []byte, off int64) (int, error) {
	if err := h.plan.step("read", h.name); err != nil {
		return 0, err
	}
	return h.Handle.ReadAt(p, off)
}

// A writer is a handle whose calls fail as the plan says.
type writer struct {
	overlay.WriteHandle
	plan *Plan
	name overlay.Name
}

// Unwrap returns the upper's handle.
func (h writer) Unwrap() any { return h.WriteHandle }

// WriteAt implements io.WriterAt.
func (h writer) WriteAt(p []byte, off int64) (int, error) {
	if err := h.plan.step("write", h.name); err != nil {
		return 0, err
	}
	return h.WriteHandle.WriteAt(p, off)
}

// Flush implements overlay.WriteHandle.
func (h writer) Flush(ctx context.Context) error {
	if err := h.plan.step("flush", h.name); err != nil {
		return err
	}
	return h.WriteHandle.Flush(ctx)
}

// Sync implements overlay.WriteHandle.
func (h writer) Sync(ctx context.Context) error {
	if err := h.plan.step("sync", h.name); err != nil {
		return err
	}
	return h.WriteHandle.Sync(ctx)
}
