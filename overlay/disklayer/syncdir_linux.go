package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

var _ overlay.DirSyncer = (*Upper)(nil)

// SyncDir implements overlay.DirSyncer.
func (u *Upper) SyncDir(_ context.Context, name overlay.Name) error {
	if err := u.syncNames(name); err != nil {
		return fail("fsync", name, err)
	}
	return nil
}

func (u *Upper) syncNames(name overlay.Name) error {
	d, err := u.dirOrAbsent(name)
	if err != nil {
		return err
	}
	defer u.cache.put(d)
	fd, err := u.openToList(d)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := again(func() error { return unix.Fsync(fd) }); err != nil {
		return err
	}
	return u.marks.extra.sync() // marks that are kept in a file
}
