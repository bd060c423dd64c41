package transport

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mounting makes looking at a mountpoint and mounting on it one step within
// the process; between processes a lock on the directory does.
var mounting sync.Mutex

// attach mounts a connection on point, an absolute path without links, and
// returns its descriptor. opts has its defaults. A dead mount of the same type
// is taken off first; a living one is EBUSY.
func attach(point string, opts *fuse.MountOptions) (int, error) {
	mounting.Lock()
	defer mounting.Unlock()
	if err := Detach(point, opts.Name); err != nil {
		return -1, err
	}
	lock, err := lockDirectory(point)
	if err != nil {
		return -1, mountError(point, err)
	}
	defer unix.Close(lock)
	top, mounted, err := topMount(point)
	if err != nil {
		return -1, err
	}
	if mounted && top.fstype == "fuse."+opts.Name {
		return -1, mountError(point, syscall.EBUSY)
	}
	fd, err := mountDirect(point, opts)
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		fd, err = mountByHelper(point, opts)
	}
	if err != nil {
		return -1, mountError(point, err)
	}
	return fd, nil
}

// lockDirectory opens the directory point and locks it against other
// processes that are about to mount on it. Closing the descriptor unlocks.
func lockDirectory(point string) (int, error) {
	fd, err := unix.Open(point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if errno := ignoringEINTR(func() error { return unix.Flock(fd, unix.LOCK_EX) }); errno != 0 {
		unix.Close(fd)
		return -1, errno
	}
	return fd, nil
}

func mountError(point string, err error) error {
	return &iofs.PathError{Op: "mount", Path: point, Err: err}
}

// mountDirect mounts by mount(2). EPERM without CAP_SYS_ADMIN, and EACCES
// where /dev/fuse may not be opened is told as EPERM, too.
func mountDirect(point string, opts *fuse.MountOptions) (int, error) {
	flags, data, err := mountArguments(opts)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Stat(point, &st); err != nil {
		return -1, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, syscall.EACCES) {
		return -1, syscall.EPERM
	}
	if err != nil {
		return -1, err
	}
	data = append(data,
		"fd="+strconv.Itoa(fd),
		fmt.Sprintf("rootmode=%o", st.Mode&unix.S_IFMT),
		"user_id="+strconv.Itoa(os.Geteuid()),
		"group_id="+strconv.Itoa(os.Getegid()))
	err = unix.Mount(source(opts), point, "fuse."+opts.Name, flags, strings.Join(data, ","))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// source is what the mount table shows as the device.
func source(opts *fuse.MountOptions) string {
	if opts.FsName != "" {
		return opts.FsName
	}
	return opts.Name
}

// mountFlags are the options that mount(2) wants as bits; set or clear.
var mountFlags = map[string]struct {
	bit   uintptr
	clear bool
}{
	"ro": {bit: unix.MS_RDONLY}, "rw": {bit: unix.MS_RDONLY, clear: true},
	"nosuid": {bit: unix.MS_NOSUID}, "nodev": {bit: unix.MS_NODEV},
	"noexec": {bit: unix.MS_NOEXEC}, "exec": {bit: unix.MS_NOEXEC, clear: true},
	"sync": {bit: unix.MS_SYNCHRONOUS}, "async": {bit: unix.MS_SYNCHRONOUS, clear: true},
	"dirsync": {bit: unix.MS_DIRSYNC},
	"noatime": {bit: unix.MS_NOATIME}, "atime": {bit: unix.MS_NOATIME, clear: true},
	"nodiratime": {bit: unix.MS_NODIRATIME}, "relatime": {bit: unix.MS_RELATIME},
	"strictatime": {bit: unix.MS_STRICTATIME},
}

// mountArguments returns the flags and the data of mount(2) for opts. suid and
// dev are refused with EINVAL: nosuid and nodev always hold. So is an option
// with a comma in it, which would become two.
func mountArguments(opts *fuse.MountOptions) (uintptr, []string, error) {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	data := []string{"max_read=" + strconv.Itoa(opts.MaxWrite)}
	if opts.AllowOther {
		data = append(data, "allow_other")
	}
	for _, o := range opts.Options {
		f, isFlag := mountFlags[o]
		switch {
		case o == "suid", o == "dev", strings.Contains(o, ","):
			return 0, nil, fmt.Errorf("option %q: %w", o, syscall.EINVAL)
		case isFlag && f.clear:
			flags &^= f.bit
		case isFlag:
			flags |= f.bit
		default:
			data = append(data, o)
		}
	}
	return flags, data, nil
}

// withMountDefaults returns a copy of opts with the fields set that this
// package reads: Name is "wsfs", MaxWrite 1 MiB, both bounded by what the
// kernel takes. go-fuse sets the others itself.
func withMountDefaults(opts *fuse.MountOptions) *fuse.MountOptions {
	o := fuse.MountOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = "wsfs"
	}
	if o.MaxWrite <= 0 {
		o.MaxWrite = 1 << 20
	}
	o.MaxWrite = min(o.MaxWrite, maxRequest())
	return &o
}

// maxRequest is the most data the kernel puts into a request: 256 pages, or
// what fs.fuse.max_pages_limit says (Linux 6.13).
func maxRequest() int {
	pages := 256
	b, err := os.ReadFile("/proc/sys/fs/fuse/max_pages_limit")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n > 0 {
			pages = n
		}
	}
	return pages * unix.Getpagesize()
}
