package transport

import (
	"os"
	"strconv"
	"strings"
)

// A mountEntry is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mountEntry struct {
	device string // "major:minor" of the file system
	point  string // where it is mounted, from that process' root
	fstype string
}

// mountTable returns the mounts that the process pid ("self" or a number)
// sees, in the order in which they were made.
func mountTable(pid string) ([]mountEntry, error) {
	b, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountTable(string(b)), nil
}

// parseMountTable parses a mountinfo file. Lines that are not of the form are
// left out.
func parseMountTable(text string) []mountEntry {
	var all []mountEntry
	for line := range strings.SplitSeq(text, "\n") {
		front, back, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(front), strings.Fields(back)
		if !ok || len(fields) < 6 || len(rest) < 1 {
			continue
		}
		all = append(all, mountEntry{device: fields[2], point: unescape(fields[4]), fstype: rest[0]})
	}
	return all
}

// unescape undoes the octal escapes (\040 for a space) of a mount table.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// topMount returns the last mount made at point, the one that is seen there.
func topMount(point string) (mountEntry, bool, error) {
	table, err := mountTable("self")
	if err != nil {
		return mountEntry{}, false, err
	}
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].point == point {
			return table[i], true, nil
		}
	}
	return mountEntry{}, false, nil
}
