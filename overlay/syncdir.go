package overlay

import "context"

var (
	_ DirSyncer = (*Overlay)(nil)
	_ DirSyncer = (*Mux)(nil)
)

// SyncDir implements DirSyncer. A directory that the upper does not hold has no
// changes.
func (o *Overlay) SyncDir(ctx context.Context, name Name) error {
	d, err := o.stack.resolve(ctx, 0, name)
	if err != nil {
		return about("fsync", name, err)
	}
	if !d.inUpper(o.stack) {
		return nil
	}
	return about("fsync", name, syncDir(ctx, o.stack.upper, name))
}

// SyncDir implements DirSyncer.
func (m *Mux) SyncDir(ctx context.Context, name Name) error {
	u, inner := m.Part(name)
	return about("fsync", name, syncDir(ctx, u, inner))
}

// syncDir makes the entries of the directory name of u durable; where u cannot
// do that alone, all it holds.
func syncDir(ctx context.Context, u Upper, name Name) error {
	if s, ok := As[DirSyncer](any(u)); ok {
		return s.SyncDir(ctx, name)
	}
	if s, ok := As[Syncer](any(u)); ok {
		return s.SyncAll(ctx)
	}
	return nil
}
