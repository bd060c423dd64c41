package disklayer

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A move is a rename under way. The locks of both directories, and those of
// both names if the source is a directory, are held.
type move struct {
	u *Upper

	from, to         overlay.Name
	fromDir, toDir   *dir
	fromBase, toBase string
	flag             overlay.RenameFlag

	src unix.Stat_t
	// dst is what the new name is, if there is a file of the layer: held.
	dst  unix.Stat_t
	held bool
	// whiteout: there is a whiteout at the new name, as a device.
	whiteout bool
	// gone: there is a whiteout at the new name, in the mark file.
	gone bool
	// hiding: the source was made opaque for this move.
	hiding bool
}

// Rename implements overlay.Layer.
func (u *Upper) Rename(_ context.Context, oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	if err := u.rename(oldname, newname, flag); err != nil {
		return fail("rename", oldname, err)
	}
	return nil
}

func (u *Upper) rename(oldname, newname overlay.Name, flag overlay.RenameFlag) error {
	if oldname == overlay.Root || newname == overlay.Root {
		return unix.EBUSY
	}
	if flag&overlay.Exchange != 0 && flag&(overlay.NoReplace|overlay.LeaveWhiteout) != 0 {
		return unix.EINVAL
	}
	m := &move{u: u, from: oldname, to: newname, flag: flag}
	var err error
	if m.fromDir, m.fromBase, err = u.parent(oldname); err != nil {
		return err
	}
	defer u.cache.put(m.fromDir)
	if m.toDir, m.toBase, err = u.parent(newname); err != nil {
		return err
	}
	defer u.cache.put(m.toDir)
	if !m.settled() {
		if err := m.settle(); err != nil {
			return err
		}
	}
	defer u.lockAll(oldname.Dir(), newname.Dir(), oldname, newname)()
	return m.run()
}

// settled reports whether there is nothing for settle to do.
func (m *move) settled() bool {
	return m.flag&overlay.WriteBack == 0 && m.u.pending.count.Load() == 0
}

// settle makes a pending copy at either name durable and begins write-back,
// both without a lock, since they may take long.
func (m *move) settle() error {
	st, err := m.u.stat(m.fromDir, m.fromBase)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := m.u.settleWithin(m.fromDir, m.fromBase, m.from); err != nil {
			return err
		}
	}
	if m.flag&overlay.Exchange != 0 {
		if err := m.settleTarget(); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err := m.u.settle(m.fromDir, m.fromBase, st.Ino); err != nil {
		return err
	}
	if m.flag&overlay.WriteBack == 0 {
		return nil
	}
	return m.u.writeBack(m.fromDir, m.fromBase)
}

// settleTarget is settle for what is at the new name of an exchange.
func (m *move) settleTarget() error {
	st, err := m.u.stat(m.toDir, m.toBase)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return m.u.settleWithin(m.toDir, m.toBase, m.to)
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return m.u.settle(m.toDir, m.toBase, st.Ino)
	}
	return nil
}

// settleWithin settles the copies below the directory name, base in d, which is
// about to move, unless it has a redirect: then they keep their names in the
// layers below.
func (u *Upper) settleWithin(d *dir, base string, name overlay.Name) error {
	if !u.pending.within(name) {
		return nil
	}
	to, err := u.marks.get(d.fd, base, markRedirect)
	if err != nil || to != nil {
		return err
	}
	return u.drain(context.Background())
}

// writeBack has the kernel begin to write the data of base in d.
func (u *Upper) writeBack(d *dir, base string) error {
	if err := u.step("write-back"); err != nil {
		return err
	}
	fd, err := u.openFile(d, base, unix.O_RDONLY)
	if is(err, unix.EACCES) {
		fd, err = u.openFile(d, base, unix.O_WRONLY)
	}
	if is(err, unix.EACCES) {
		return nil // an unprivileged owner of a file that nobody may open
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return again(func() error { return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
}

// run does the rename.
func (m *move) run() error {
	if err := m.look(); err != nil {
		return err
	}
	// A copy that came since settle looked.
	if err := m.u.settle(m.fromDir, m.fromBase, m.src.Ino); err != nil {
		return err
	}
	switch {
	case m.held && m.flag&overlay.NoReplace != 0:
		return unix.EEXIST
	case m.held && m.src.Ino == m.dst.Ino && m.src.Dev == m.dst.Dev:
		return nil // two names of one file: rename(2) does nothing
	case m.flag&overlay.Exchange != 0:
		return m.exchange()
	}
	if err := m.mayReplace(); err != nil {
		return err
	}
	if err := m.markTarget(); err != nil {
		return err
	}
	lost, err := m.lastOfTarget()
	if err != nil {
		return err
	}
	if err := m.move(); err != nil {
		if m.hiding {
			m.u.marks.remove(m.fromDir.fd, m.fromBase, markOpaque) // the first error counts
		}
		return err
	}
	return m.tell(lost)
}

// look finds out what is at both names.
func (m *move) look() (err error) {
	if m.src, err = m.u.stat(m.fromDir, m.fromBase); err != nil {
		return err
	}
	m.dst, err = lstat(m.toDir.fd, m.toBase)
	switch {
	case is(err, unix.ENOENT):
		m.gone, err = m.u.isGone(m.toDir, m.toBase)
		return err
	case err != nil:
		return err
	case isWhiteout(&m.dst):
		m.whiteout = true
	default:
		m.held = true
	}
	return nil
}

func (m *move) srcIsDir() bool { return m.src.Mode&unix.S_IFMT == unix.S_IFDIR }
func (m *move) dstIsDir() bool { return m.held && m.dst.Mode&unix.S_IFMT == unix.S_IFDIR }

// mayReplace returns the error that rename(2) has for the two files.
func (m *move) mayReplace() error {
	switch {
	case m.srcIsDir() && m.to.Within(m.from):
		return unix.EINVAL
	case !m.held:
		return nil
	case m.srcIsDir() && !m.dstIsDir():
		return unix.ENOTDIR
	case !m.srcIsDir() && m.dstIsDir():
		return unix.EISDIR
	case m.dstIsDir():
		return m.u.mustBeEmpty(m.to)
	}
	return nil
}

// markTarget marks the new directory impure if the old one is, and a directory
// that takes a whiteout's place opaque unless it has a redirect.
func (m *move) markTarget() error {
	if m.u.impure(m.fromDir) {
		if err := m.u.setImpure(m.toDir); err != nil {
			return err
		}
	}
	if !m.srcIsDir() || (!m.whiteout && !m.gone) {
		return nil
	}
	for _, k := range []mark{markRedirect, markOpaque} {
		v, err := m.u.marks.get(m.fromDir.fd, m.fromBase, k)
		if err != nil || v != nil {
			return err
		}
	}
	m.hiding = true
	return m.u.marks.set(m.fromDir.fd, m.fromBase, markOpaque, []byte("y"))
}

// setImpure marks d as a directory whose files may have an origin.
func (u *Upper) setImpure(d *dir) error {
	if u.impure(d) {
		return nil
	}
	if err := u.marks.set(d.fd, ".", markImpure, []byte("y")); err != nil {
		return err
	}
	d.purity.Store(impure)
	return nil
}

// lastOfTarget returns what lost needs to know of the file that is replaced.
func (m *move) lastOfTarget() (origin, error) {
	if !m.held || m.dstIsDir() {
		return origin{}, nil
	}
	return m.u.lastOf(m.toDir, m.toBase, &m.dst)
}

// exchange swaps the two names.
func (m *move) exchange() error {
	if !m.held {
		return unix.ENOENT
	}
	if (m.srcIsDir() && m.to.Within(m.from)) || (m.dstIsDir() && m.from.Within(m.to)) {
		return unix.EINVAL
	}
	if m.u.impure(m.fromDir) || m.u.impure(m.toDir) {
		if err := m.u.setImpure(m.toDir); err != nil {
			return err
		}
		if err := m.u.setImpure(m.fromDir); err != nil {
			return err
		}
	}
	if err := m.u.step("exchange"); err != nil {
		return err
	}
	if err := unix.Renameat2(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	if m.srcIsDir() || m.dstIsDir() {
		m.moved(true)
		return nil
	}
	m.u.names.moveFile(m.src.Ino, m.from, m.to)
	m.u.names.moveFile(m.dst.Ino, m.to, m.from)
	return nil
}

// tell has everything that goes by name know of the rename, after which lost,
// the origin of the file that was replaced, has one name less.
func (m *move) tell(lost origin) error {
	var err error
	switch {
	case m.dstIsDir():
		err = m.u.marks.extra.forget(m.dst.Ino)
	case m.held:
		err = m.u.lost(m.to, &m.dst, lost)
	}
	if m.srcIsDir() {
		m.moved(false)
	} else {
		m.u.names.moveFile(m.src.Ino, m.from, m.to)
	}
	return err
}

// moved tells everything that goes by name that a directory moved.
func (m *move) moved(exchange bool) {
	m.u.cache.move(m.from, m.to, exchange)
	m.u.names.move(m.from, m.to, exchange)
	m.u.pending.move(m.from, m.to, exchange)
}
