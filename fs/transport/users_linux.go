package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Users returns the processes that hold the mount at mountpoint busy, by
// ascending pid: with a working directory, root, program, open file or mapping
// on it. Processes in other mount namespaces count. It reads /proc only and
// never follows a link to the mount, so that a server may call it about
// itself. Without privileges it sees the caller's own processes only. EINVAL
// if nothing is mounted there.
func Users(mountpoint string) ([]Process, error) {
	point, err := realPoint(mountpoint)
	if err != nil {
		return nil, err
	}
	top, mounted, err := topMount(point)
	if err != nil {
		return nil, err
	}
	if !mounted {
		return nil, &os.PathError{Op: "users", Path: mountpoint, Err: syscall.EINVAL}
	}
	return usersOf(top.device)
}

// usersOf looks through all processes for the file system device.
func usersOf(device string) ([]Process, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	where := &mountPoints{device: device, known: map[string][]string{}}
	var all []Process
	for _, pid := range pids {
		uses, err := usesOf(strconv.Itoa(pid), where)
		if err != nil {
			return nil, err
		}
		if len(uses) > 0 {
			all = append(all, Process{PID: pid, Command: commandOf(strconv.Itoa(pid)), Uses: uses})
		}
	}
	return all, nil
}

// pids returns all processes, ascending.
func pids() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	return all, nil
}

func commandOf(pid string) string {
	b, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "" // it has just ended
	}
	return strings.TrimSuffix(string(b), "\n")
}

// usesOf returns how the process pid holds the device. A process that ends
// meanwhile, or that the caller may not look at, holds nothing.
func usesOf(pid string, where *mountPoints) ([]Use, error) {
	points, err := where.of(pid)
	if err != nil || len(points) == 0 {
		return nil, ignoreGone(err)
	}
	var uses []Use
	note := func(what, link string) error {
		link = "/proc/" + pid + "/" + link
		path, err := os.Readlink(link)
		on := within(path, points)
		if errors.Is(err, syscall.ENAMETOOLONG) {
			path = tooLong
			on, err = onDevice(link, where.device)
		}
		if err == nil && on {
			uses = append(uses, Use{What: what, Path: path})
		}
		return ignoreGone(err)
	}
	for _, link := range []string{"cwd", "root", "exe"} {
		if err := note(link, link); err != nil {
			return nil, err
		}
	}
	fds, err := os.ReadDir("/proc/" + pid + "/fd")
	if err := ignoreGone(err); err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if err := note("fd "+fd.Name(), "fd/"+fd.Name()); err != nil {
			return nil, err
		}
	}
	maps, err := mappingsOf(pid, where.device)
	return append(uses, maps...), ignoreGone(err)
}

// tooLong stands for a path that the kernel does not tell.
const tooLong = "(a path too long to tell)"

// onDevice reports whether a link of /proc leads to the file system device. No
// request is sent to its server: asked for nothing, the kernel answers which
// device it is from what it has.
func onDevice(link, device string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return false, err
	}
	return fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor) == device, nil
}

// ignoreGone drops the errors that say that a process has ended, is a kernel
// thread or belongs to somebody else.
func ignoreGone(err error) error {
	for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.ESRCH, syscall.EACCES, syscall.EPERM, syscall.EINVAL} {
		if errors.Is(err, errno) {
			return nil
		}
	}
	return err
}

// within reports whether path is one of points or lies below one.
func within(path string, points []string) bool {
	for _, p := range points {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") || path == p+" (deleted)" {
			return true
		}
	}
	return false
}

// mountPoints knows where a device is mounted in each mount namespace.
type mountPoints struct {
	device string
	known  map[string][]string // by the namespace's link
}

// of returns where the process pid sees the device.
func (m *mountPoints) of(pid string) ([]string, error) {
	space, err := os.Readlink("/proc/" + pid + "/ns/mnt")
	if err != nil {
		return nil, err
	}
	if points, ok := m.known[space]; ok {
		return points, nil
	}
	table, err := mountTable(pid)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, e := range table {
		if e.device == m.device {
			points = append(points, filepath.Clean(e.point))
		}
	}
	m.known[space] = points
	return points, nil
}

// mappingsOf returns the files of the device that the process has mapped.
// /proc/PID/maps has what the links in map_files have, needs no privilege
// and names the device.
func mappingsOf(pid, device string) ([]Use, error) {
	f, err := os.Open("/proc/" + pid + "/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var uses []Use
	last := ""
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n') // of any length
		if err == io.EOF {
			return uses, nil
		}
		if err != nil {
			return uses, err
		}
		path, ok := mappedFile(strings.TrimSuffix(line, "\n"), device)
		if ok && path != last {
			uses = append(uses, Use{What: "map", Path: path})
			last = path
		}
	}
}

// mappedFile returns the path of a line of /proc/PID/maps if its file is on
// the device "major:minor" (decimal, where the line has hexadecimal).
func mappedFile(line, device string) (string, bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 {
		return "", false
	}
	major, minor, ok := strings.Cut(fields[3], ":")
	if !ok || decimal(major)+":"+decimal(minor) != device {
		return "", false
	}
	return strings.ReplaceAll(strings.TrimLeft(fields[5], " "), `\012`, "\n"), true
}

// decimal returns a hexadecimal number in decimal, "" if it is none.
func decimal(hex string) string {
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
