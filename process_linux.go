package wsfs

import (
	"os"
	"syscall"
)

// prepareProcess makes the process one that can serve files for others: modes
// are made as they are asked for (umask 0), and as many files can be open as
// the system allows.
func prepareProcess() {
	syscall.Umask(0)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it goes on with what it has
	}
}

// ownerOf returns the owner of the file path; false if it cannot be told.
func ownerOf(path string) (uid, gid uint32, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Uid, st.Gid, true
}
