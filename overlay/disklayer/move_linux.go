package disklayer

import (
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// move does the rename on disk.
func (m *move) move() error {
	switch {
	case m.u.gone:
		return m.moveRecorded()
	case m.dstIsDir(), m.whiteout && m.srcIsDir():
		return m.moveThroughExchange()
	}
	var flags uint
	if m.flag&overlay.LeaveWhiteout != 0 {
		flags |= unix.RENAME_WHITEOUT
	}
	if !m.held && !m.whiteout {
		flags |= unix.RENAME_NOREPLACE
	}
	if err := m.u.step("rename"); err != nil {
		return err
	}
	err := unix.Renameat2(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase, flags)
	if is(err, unix.EINVAL) && flags != 0 {
		return m.moveByStep()
	}
	return err
}

// moveByStep is move where the kernel does not know its flags. A crash before
// the whiteout leaves what the old name hid.
func (m *move) moveByStep() error {
	if err := unix.Renameat(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase); err != nil {
		return err
	}
	if m.flag&overlay.LeaveWhiteout == 0 {
		return nil
	}
	return m.u.newWhiteout(m.fromDir.fd, m.fromBase)
}

// moveThroughExchange is move onto a directory, which may hold whiteouts, or of
// a directory onto a whiteout. What was at the new name is at the old one for a
// moment; a crash then leaves an empty directory or a whiteout there.
func (m *move) moveThroughExchange() error {
	if err := m.u.step("exchange"); err != nil {
		return err
	}
	if err := unix.Renameat2(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	keep := m.flag&overlay.LeaveWhiteout != 0 && !m.u.gone
	if m.whiteout {
		if keep {
			return nil
		}
		return m.undoUnless(m.takeWhiteout())
	}
	tmp := workName()
	if err := m.u.moveDirAway(m.fromDir, m.fromBase, tmp, keep); err != nil {
		return m.undoUnless(err)
	}
	m.u.sweepDir(m.u.work, tmp)
	return nil
}

// takeWhiteout removes the whiteout that came to the old name.
func (m *move) takeWhiteout() error {
	if err := m.u.step("unlink whiteout"); err != nil {
		return err
	}
	return unix.Unlinkat(m.fromDir.fd, m.fromBase, 0)
}

// undoUnless exchanges the names again if err is an error.
func (m *move) undoUnless(err error) error {
	if err == nil {
		return nil
	}
	undo := unix.Renameat2(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase, unix.RENAME_EXCHANGE)
	if undo != nil {
		return unix.EIO
	}
	return err
}

// moveRecorded is move with whiteouts in the mark file.
func (m *move) moveRecorded() error {
	if m.flag&overlay.LeaveWhiteout != 0 {
		return m.u.recordGone(m.fromDir, m.fromBase, m.moveOver)
	}
	return m.moveOver()
}

// moveOver moves the source over what may be at the new name: a file, a
// directory without files, or a recorded whiteout. While a file is there, the
// record does not count: it goes last.
func (m *move) moveOver() error {
	if m.dstIsDir() {
		return m.moveThroughExchange()
	}
	if err := m.u.step("rename"); err != nil {
		return err
	}
	if err := unix.Renameat(m.fromDir.fd, m.fromBase, m.toDir.fd, m.toBase); err != nil {
		return err
	}
	if !m.gone {
		return nil
	}
	err := m.u.setGone(m.toDir, m.toBase, false)
	if err == nil {
		return nil
	}
	if undo := unix.Renameat(m.toDir.fd, m.toBase, m.fromDir.fd, m.fromBase); undo != nil {
		return unix.EIO
	}
	return err
}
