//go:build linux

package fs

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// threadCaps are the effective capabilities of the daemon's threads, and those
// that backing files are registered with.
type threadCaps struct {
	full, plain [2]unix.CapUserData
	err         error
}

// passes reports whether files may be passed through at all.
func (f *FS) passes() bool { return f.opt.Passthrough && !f.noPassthrough.Load() }

// errnoOK is what the kernel's interfaces return for success.
const errnoOK = syscall.Errno(0)

// register gives the kernel fl as a backing file.
//
// The kernel writes to a backing file with the credentials it was registered
// with, and asks nobody about set-user-id bits. So they must not include
// CAP_FSETID: the file system below then clears the bits, as it does for any
// writer without that capability.
func (f *FS) register(fl *file) (id int32, ok bool) {
	k := f.notify()
	if k == nil {
		return 0, false
	}
	host, ok := overlay.As[overlay.Filer](fl.w)
	if !ok {
		return 0, false
	}
	fd := host.FD()
	if fd < 0 {
		return 0, false
	}
	var errno syscall.Errno
	err := f.withoutFsetid(func() {
		id, errno = k.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	})
	if err == nil && errno == errnoOK {
		return id, true
	}
	if err != nil || errno == syscall.EPERM || errno == syscall.ENOTTY || errno == syscall.EOPNOTSUPP ||
		errno == syscall.ELOOP {
		if !f.noPassthrough.Swap(true) {
			f.log.Warn("fs: the kernel refuses passthrough; files are served without", "errno", errno, "err", err)
		}
	}
	return 0, false
}

// unregister takes a backing file from the kernel.
func (f *FS) unregister(id int32) {
	if k := f.notify(); k != nil {
		// It fails only when the connection is gone, and the file with it.
		k.UnregisterBackingFd(id)
	}
}

// withoutFsetid calls fn on a thread whose effective capabilities lack
// CAP_FSETID. Capabilities belong to a thread, so nobody else notices.
func (f *FS) withoutFsetid(fn func()) error {
	f.plain.Do(func() { f.plain.caps = readCaps() })
	c := &f.plain.caps
	if c.err != nil {
		return c.err
	}
	if c.full == c.plain {
		fn()
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := capset(&c.plain); err != nil {
		return err
	}
	defer func() {
		if err := capset(&c.full); err != nil {
			panic(fmt.Sprintf("BUG: fs: a thread cannot take back its capabilities: %v", err))
		}
	}()
	fn()
	return nil
}

// readCaps returns the calling thread's capabilities, with and without
// CAP_FSETID. All threads have the same but while one is in withoutFsetid.
func readCaps() (c threadCaps) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if c.err = unix.Capget(&header, &c.full[0]); c.err != nil {
		return c
	}
	c.plain = c.full
	c.plain[unix.CAP_FSETID/32].Effective &^= 1 << (unix.CAP_FSETID % 32)
	return c
}

// capset sets the calling thread's capabilities.
func capset(data *[2]unix.CapUserData) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &data[0])
}
