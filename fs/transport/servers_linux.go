package transport

import (
	"errors"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
)

// ServedBy reports whether a FUSE server named name ("wsfs" for the type
// fuse.wsfs) has its mount at mountpoint, dead or alive, and which processes
// serve it: none if that cannot be told, as before Linux 6.16 or without
// privileges for those of others.
func ServedBy(mountpoint, name string) (by []Process, served bool, err error) {
	point, err := realPoint(mountpoint)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	top, mounted, err := topMount(point)
	if err != nil || !mounted || top.fstype != "fuse."+name {
		return nil, false, err
	}
	by, err = serversOf(top.device)
	return by, true, err
}

// serversOf looks through all processes for open connections of the device.
func serversOf(device string) ([]Process, error) {
	pids, err := pids()
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		fds, err := os.ReadDir(dir + "/fd")
		if err := ignoreGone(err); err != nil {
			return nil, err
		}
		for _, fd := range fds {
			if path, err := os.Readlink(dir + "/fd/" + fd.Name()); err != nil || path != "/dev/fuse" {
				continue
			}
			info, err := os.ReadFile(dir + "/fdinfo/" + fd.Name())
			if err == nil && connectionOf(string(info)) == device {
				all = append(all, Process{PID: pid, Command: commandOf(strconv.Itoa(pid)), Uses: []Use{{"fd " + fd.Name(), "/dev/fuse"}}})
				break
			}
		}
	}
	return all, nil
}

// connectionOf returns the device of the mount whose connection an fdinfo file
// is about, "" if it is about something else.
func connectionOf(info string) string {
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(line, "fuse_connection:"); ok {
			return "0:" + strings.TrimSpace(n) // file systems without a disk have major number 0
		}
	}
	return ""
}
