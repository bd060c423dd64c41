//go:build linux

package fs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// playScript does the steps args[1:] in the directory args[0] and prints what
// each of them gave: the same on every correct file system.
func playScript(args []string) error {
	p := player{dir: args[0], open: make(map[string]int)}
	for _, step := range args[1:] {
		words := strings.Fields(step)
		result, err := p.play(words[0], words[1:])
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			result = unix.ErrnoName(errno)
		case err != nil:
			return fmt.Errorf("%s: %w", step, err)
		}
		fmt.Printf("%s: %s\n", step, result)
	}
	return nil
}

// A player does steps. open holds descriptors by the name a step gave them.
type player struct {
	dir  string
	open map[string]int
	// noDirLinks leaves the link count of directories out: one of several
	// layers has 1.
	noDirLinks bool
}

func (p *player) at(name string) string { return filepath.Join(p.dir, name) }

// play does one step: the operation op on words.
func (p *player) play(op string, w []string) (string, error) {
	num := func(i, base int) int {
		v, err := strconv.ParseInt(w[i], base, 64)
		if err != nil {
			panic(err)
		}
		return int(v)
	}
	done := func(err error) (string, error) { return "ok", err }
	switch op {
	case "umask":
		syscall.Umask(num(0, 8))
		return done(nil)
	case "create":
		fd, err := unix.Open(p.at(w[0]), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, uint32(num(1, 8)))
		if err == nil {
			err = unix.Close(fd)
		}
		return done(err)
	case "mkdir":
		return done(unix.Mkdir(p.at(w[0]), uint32(num(1, 8))))
	case "fifo":
		return done(unix.Mknod(p.at(w[0]), unix.S_IFIFO|uint32(num(1, 8)), 0))
	case "device":
		return done(unix.Mknod(p.at(w[0]), unix.S_IFCHR|0o600, num(1, 10)))
	case "symlink":
		return done(unix.Symlink(w[0], p.at(w[1])))
	case "readlink":
		b := make([]byte, 4096)
		n, err := unix.Readlink(p.at(w[0]), b)
		return string(b[:max(n, 0)]), err
	case "link":
		return done(unix.Link(p.at(w[0]), p.at(w[1])))
	case "rename":
		return done(unix.Rename(p.at(w[0]), p.at(w[1])))
	case "rename2":
		return done(unix.Renameat2(unix.AT_FDCWD, p.at(w[0]), unix.AT_FDCWD, p.at(w[1]), uint(num(2, 10))))
	case "unlink":
		return done(unix.Unlink(p.at(w[0])))
	case "rmdir":
		return done(unix.Rmdir(p.at(w[0])))
	case "chmod":
		return done(unix.Chmod(p.at(w[0]), uint32(num(1, 8))))
	case "chown":
		return done(unix.Lchown(p.at(w[0]), num(1, 10), num(2, 10)))
	case "trunc":
		return done(unix.Truncate(p.at(w[0]), int64(num(1, 10))))
	case "utimes":
		ts := []unix.Timespec{unix.NsecToTimespec(int64(num(1, 10))), unix.NsecToTimespec(int64(num(2, 10)))}
		return done(unix.UtimesNanoAt(unix.AT_FDCWD, p.at(w[0]), ts, unix.AT_SYMLINK_NOFOLLOW))
	case "touch":
		return done(unix.UtimesNanoAt(unix.AT_FDCWD, p.at(w[0]), nil, 0))
	case "write": // appends
		return p.with(w[0], unix.O_WRONLY|unix.O_APPEND, func(fd int) (int, error) { return unix.Write(fd, []byte(w[1])) })
	case "overwrite":
		return p.with(w[0], unix.O_WRONLY|unix.O_TRUNC, func(fd int) (int, error) { return unix.Write(fd, []byte(w[1])) })
	case "fallocate":
		return p.with(w[0], unix.O_WRONLY, func(fd int) (int, error) { return 0, unix.Fallocate(fd, 0, 0, int64(num(1, 10))) })
	case "read":
		b, err := os.ReadFile(p.at(w[0]))
		return strconv.Quote(string(b)), err
	case "list":
		entries, err := os.ReadDir(p.at(w[0]))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " "), err
	case "access":
		return done(unix.Faccessat(unix.AT_FDCWD, p.at(w[0]), uint32(num(1, 8)), unix.AT_EACCESS))
	case "acl":
		return done(unix.Setxattr(p.at(w[0]), "system.posix_acl_"+w[1], aclBytes(w[2]), 0))
	case "getacl":
		b := make([]byte, 1024)
		n, err := unix.Getxattr(p.at(w[0]), "system.posix_acl_"+w[1], b)
		return fmt.Sprintf("%x", b[:max(n, 0)]), err
	case "setx":
		return done(unix.Lsetxattr(p.at(w[0]), w[1], []byte(w[2]), 0))
	case "getx":
		b := make([]byte, 1024)
		n, err := unix.Lgetxattr(p.at(w[0]), w[1], b)
		return string(b[:max(n, 0)]), err
	case "rmx":
		return done(unix.Lremovexattr(p.at(w[0]), w[1]))
	case "listx":
		b := make([]byte, 1024)
		n, err := unix.Llistxattr(p.at(w[0]), b)
		return strings.ReplaceAll(string(b[:max(n, 0)]), "\x00", " "), err
	case "cap": // a file capability: cap_net_raw, effective
		return done(unix.Setxattr(p.at(w[0]), "security.capability", []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0))
	case "hascap":
		n, err := unix.Getxattr(p.at(w[0]), "security.capability", nil)
		return strconv.Itoa(n), err
	case "tree": // all there is
		return describe(p.dir), nil
	case "stat":
		var st unix.Stat_t
		err := unix.Lstat(p.at(w[0]), &st)
		return p.statLine(&st), err
	}
	return p.playOpen(op, w, num)
}

// playOpen does the steps that work on descriptors which stay open.
func (p *player) playOpen(op string, w []string, num func(i, base int) int) (string, error) {
	done := func(err error) (string, error) { return "ok", err }
	fd := p.open[w[0]]
	switch op {
	case "open": // open FD NAME FLAGS
		flags := map[string]int{"r": unix.O_RDONLY, "w": unix.O_WRONLY, "rw": unix.O_RDWR, "a": unix.O_WRONLY | unix.O_APPEND, "path": unix.O_PATH}
		fd, err := unix.Open(p.at(w[1]), flags[w[2]]|unix.O_CLOEXEC, 0)
		if err == nil {
			p.open[w[0]] = fd
		}
		return done(err)
	case "tmpfile": // tmpfile FD DIR MODE
		fd, err := unix.Open(p.at(w[1]), unix.O_TMPFILE|unix.O_RDWR, uint32(num(2, 8)))
		p.open[w[0]] = fd
		return done(err)
	case "close":
		delete(p.open, w[0])
		return done(unix.Close(fd))
	case "fread":
		b := make([]byte, 4096)
		n, err := unix.Pread(fd, b, 0)
		return strconv.Quote(string(b[:max(n, 0)])), err
	case "fwrite":
		n, err := unix.Write(fd, []byte(w[1]))
		return strconv.Itoa(n), err
	case "fstat":
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		return p.statLine(&st), err
	case "fchmod":
		return done(unix.Fchmod(fd, uint32(num(1, 8))))
	case "fchown":
		return done(unix.Fchown(fd, num(1, 10), num(2, 10)))
	case "ftrunc":
		return done(unix.Ftruncate(fd, int64(num(1, 10))))
	case "fsync":
		return done(unix.Fsync(fd))
	case "flink": // gives an open file a name
		return done(unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p.at(w[1]), unix.AT_SYMLINK_FOLLOW))
	}
	return "", fmt.Errorf("no step %q", op)
}

// with opens name, calls fn and closes it.
func (p *player) with(name string, flags int, fn func(fd int) (int, error)) (string, error) {
	fd, err := unix.Open(p.at(name), flags, 0)
	if err != nil {
		return "", err
	}
	n, err := fn(fd)
	return strconv.Itoa(n), errors.Join(err, unix.Close(fd))
}

// statLine is statLine, as far as the player wants it.
func (p *player) statLine(st *unix.Stat_t) string {
	if p.noDirLinks && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		st.Nlink = 0
	}
	return statLine(st)
}

// statLine returns what is the same on every file system.
func statLine(st *unix.Stat_t) string {
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 0
	}
	return fmt.Sprintf("%06o %d:%d nlink %d size %d rdev %d", st.Mode, st.Uid, st.Gid, st.Nlink, size, st.Rdev)
}

// aclBytes returns the kernel's encoding of an ACL like
// u::rwx,u:1001:r--,g::r-x,m::rwx,o::---
func aclBytes(text string) []byte {
	tags := map[string][2]uint16{"u": {1, 2}, "g": {4, 8}, "m": {16, 16}, "o": {32, 32}}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, uint32(2))
	for _, entry := range strings.Split(text, ",") {
		f := strings.Split(entry, ":")
		tag, id := tags[f[0]][0], uint32(0xffffffff)
		if f[1] != "" {
			v, err := strconv.Atoi(f[1])
			if err != nil {
				panic(err)
			}
			tag, id = tags[f[0]][1], uint32(v)
		}
		var perm uint16
		for i, c := range f[2] {
			if c != '-' {
				perm |= 4 >> i
			}
		}
		binary.Write(&b, binary.LittleEndian, struct {
			Tag, Perm uint16
			ID        uint32
		}{tag, perm, id})
	}
	return b.Bytes()
}
