package transport

// A Process is somebody who uses a mount.
type Process struct {
	PID     int
	Command string // /proc/PID/comm
	Uses    []Use
}

// A Use is one way in which a process holds a mount.
type Use struct {
	What string // "cwd", "root", "exe", "fd 3", "map"
	Path string // from that process' root; ends in " (deleted)" for a file without a name
}
