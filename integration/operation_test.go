//go:build linux

package integration

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An operation is a system call, or a few that belong together, on names below
// a directory. Kinds take what they need of the fields.
type operation struct {
	kind int // of operationKinds
	a, b string
	off  int64
	mode uint32
	flag uint
	text string
}

func (o operation) String() string {
	return fmt.Sprintf("%s %s %s off=%d mode=%o flag=%d %.20q", operationKinds[o.kind].name, o.a, o.b, o.off, o.mode, o.flag, o.text)
}

// A site is a tree that operations are done on.
type site struct {
	dir  string
	held int // an open file, -1 if there is none
}

// path returns the path of name.
func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// release closes what is held.
func (s *site) release() error {
	if s.held < 0 {
		return nil
	}
	fd := s.held
	s.held = -1
	return unix.Close(fd)
}

// do does o and returns what a program sees of it: "ok", what it read, or the
// name of the error.
func (s *site) do(o operation) string {
	saw, err := operationKinds[o.kind].do(s, o)
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return unix.ErrnoName(errno)
	}
	if err != nil {
		return err.Error()
	}
	return "ok" + saw
}

// operationKinds are all kinds of operations; weight is how often they come.
var operationKinds = []struct {
	name   string
	weight int
	do     func(s *site, o operation) (saw string, err error)
}{
	{"write", 5, func(s *site, o operation) (string, error) { return s.write(o, unix.O_CREAT) }},
	{"append", 3, func(s *site, o operation) (string, error) { return s.write(o, unix.O_APPEND) }},
	{"overwrite", 2, func(s *site, o operation) (string, error) { return s.write(o, unix.O_TRUNC|unix.O_CREAT) }},
	{"create", 2, func(s *site, o operation) (string, error) { return s.write(o, unix.O_EXCL|unix.O_CREAT) }},
	{"truncate", 2, func(s *site, o operation) (string, error) { return "", unix.Truncate(s.path(o.a), o.off) }},
	{"punch", 1, (*site).punch},
	{"copy", 1, (*site).copy},
	{"mkdir", 9, func(s *site, o operation) (string, error) { return "", unix.Mkdir(s.path(o.a), 0o755) }},
	{"mkfifo", 1, func(s *site, o operation) (string, error) { return "", unix.Mkfifo(s.path(o.a), 0o644) }},
	{"symlink", 2, func(s *site, o operation) (string, error) { return "", unix.Symlink(o.text, s.path(o.a)) }},
	{"link", 6, func(s *site, o operation) (string, error) {
		return "", unix.Linkat(unix.AT_FDCWD, s.path(o.a), unix.AT_FDCWD, s.path(o.b), 0)
	}},
	{"rename", 12, func(s *site, o operation) (string, error) {
		return "", unix.Renameat2(unix.AT_FDCWD, s.path(o.a), unix.AT_FDCWD, s.path(o.b), o.flag)
	}},
	{"unlink", 3, func(s *site, o operation) (string, error) { return "", unix.Unlink(s.path(o.a)) }},
	{"rmdir", 3, func(s *site, o operation) (string, error) { return "", unix.Rmdir(s.path(o.a)) }},
	{"remove all", 1, (*site).removeAll},
	{"chmod", 2, func(s *site, o operation) (string, error) { return "", unix.Chmod(s.path(o.a), o.mode) }},
	{"chown", 1, (*site).chown},
	{"utimes", 2, func(s *site, o operation) (string, error) { return "", setTime(s.path(o.a), past(o.off)) }},
	{"setxattr", 2, func(s *site, o operation) (string, error) {
		return "", unix.Lsetxattr(s.path(o.a), "user.note", []byte(o.text), int(o.flag))
	}},
	{"removexattr", 1, func(s *site, o operation) (string, error) {
		return "", unix.Lremovexattr(s.path(o.a), "user.note")
	}},
	{"readdir", 3, (*site).readDir},
	{"read", 2, (*site).read},
	{"readlink", 1, func(s *site, o operation) (string, error) { return os.Readlink(s.path(o.a)) }},
	{"unnamed", 1, (*site).unnamed},
	{"hold", 3, (*site).hold},
	{"write held", 2, func(s *site, o operation) (string, error) {
		_, err := unix.Pwrite(s.held, []byte(o.text), o.off)
		return s.size(), err
	}},
	{"store held", 2, (*site).storeHeld},
	{"sync held", 1, func(s *site, _ operation) (string, error) { return "", unix.Fsync(s.held) }},
	{"truncate held", 1, func(s *site, o operation) (string, error) { return "", unix.Ftruncate(s.held, o.off) }},
	{"read held", 2, func(s *site, _ operation) (string, error) { return contentOf(s.held) }},
}

// drawOperation returns a random operation. Names are few, so that operations
// meet. No link leads out of the tree, where the sites differ.
func drawOperation(rnd *rand.Rand) operation {
	o := operation{
		a: drawName(rnd), b: drawName(rnd),
		off:  pick[int64](rnd, 0, 0, 1, 4096, 5000),
		mode: pick[uint32](rnd, 0o600, 0o711, 0o755, 0o1777),
		flag: pick[uint](rnd, 0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE), // of setxattr: CREATE, REPLACE
		text: pick(rnd, "a", "b/c", "./a", "missing", "some text", strings.Repeat("long ", 1500)),
	}
	for roll := rnd.IntN(totalWeight()); ; o.kind++ {
		if roll -= operationKinds[o.kind].weight; roll < 0 {
			return o
		}
	}
}

func totalWeight() (sum int) {
	for _, k := range operationKinds {
		sum += k.weight
	}
	return sum
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func drawName(rnd *rand.Rand) string {
	name := pick(rnd, "a", "b", "c")
	for range pick(rnd, 0, 0, 1, 1, 2) {
		name += "/" + pick(rnd, "a", "b", "c")
	}
	return name
}

// past returns one of the times that files get; all are long ago.
func past(n int64) time.Time { return time.Unix(1_000_000_000+n, 123_456_789) }

// setTime sets the times of path, of a link itself.
func setTime(path string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// chown changes the owner, which takes set-user-id and set-group-id from a file
// and leaves them to a directory. No other operation sets them on a file: a
// write by root does not drop them in the kernel's overlayfs, and may on a wsfs
// mount (docs/POSIX.md).
func (s *site) chown(o operation) (string, error) {
	if err := unix.Chmod(s.path(o.a), 0o6755); err != nil {
		return "", err
	}
	return "", unix.Chown(s.path(o.a), int(o.off), int(o.off/2))
}

// open opens name and has use do something with the descriptor.
func (s *site) open(name string, flag int, use func(fd int) error) error {
	fd, err := unix.Open(s.path(name), flag|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(use(fd), unix.Close(fd))
}

func (s *site) write(o operation, flag int) (string, error) {
	return "", s.open(o.a, flag|unix.O_WRONLY, func(fd int) error {
		_, err := unix.Pwrite(fd, []byte(o.text), o.off)
		return err
	})
}

func (s *site) punch(o operation) (string, error) {
	return "", s.open(o.a, unix.O_WRONLY, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, o.off, 3000)
	})
}

// copy copies a to b as cp does.
func (s *site) copy(o operation) (saw string, err error) {
	err = s.open(o.a, unix.O_RDONLY, func(from int) error {
		return s.open(o.b, unix.O_WRONLY|unix.O_CREAT, func(to int) error {
			n, err := unix.CopyFileRange(from, nil, to, nil, 100_000, 0)
			saw = fmt.Sprint(" ", n)
			return err
		})
	})
	return saw, err
}

func (s *site) read(o operation) (saw string, err error) {
	err = s.open(o.a, unix.O_RDONLY, func(fd int) error {
		saw, err = contentOf(fd)
		return err
	})
	return saw, err
}

// removeAll removes a file or a whole directory. os.RemoveAll would open what
// the name is in, which may be a FIFO.
func (s *site) removeAll(o operation) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(s.path(o.a), &st); err != nil {
		return "", err
	}
	return "", os.RemoveAll(s.path(o.a))
}

// contentOf describes the content of the open file fd.
func contentOf(fd int) (string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(" %d bytes, sha256 %x", n, sha256.Sum256(buf[:n])), nil
}

// readDir lists names and types.
func (s *site) readDir(o operation) (saw string, err error) {
	entries, err := os.ReadDir(s.path(o.a))
	for _, e := range entries {
		saw += fmt.Sprintf(" %s:%v", e.Name(), e.Type())
	}
	return saw, err
}

// unnamed makes a file in a that has no name, writes to it, and then names it b.
func (s *site) unnamed(o operation) (string, error) {
	return "", s.open(o.a, unix.O_TMPFILE|unix.O_WRONLY, func(fd int) error {
		if _, err := unix.Pwrite(fd, []byte(o.text), o.off); err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, s.path(o.b), unix.AT_SYMLINK_FOLLOW)
	})
}

// hold opens a file and keeps it open, instead of one that was held before.
func (s *site) hold(o operation) (string, error) {
	fd, err := unix.Open(s.path(o.a), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	err = s.release()
	s.held = fd
	return "", err
}

// storeHeld writes to the first bytes of the file that is held by a mapping.
func (s *site) storeHeld(o operation) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.held, &st); err != nil {
		return "", err
	}
	memory, err := unix.Mmap(s.held, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return "", err
	}
	copy(memory[:min(st.Size, 4096)], o.text) // behind the end of the file it would fault
	return "", unix.Munmap(memory)
}

// size describes the size of the file that is held.
func (s *site) size() string {
	var st unix.Stat_t
	if err := unix.Fstat(s.held, &st); err != nil {
		return " " + err.Error()
	}
	return fmt.Sprint(" size ", st.Size)
}
