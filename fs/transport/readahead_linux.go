package transport

import (
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// raiseReadAhead lets the kernel read ahead as far as opts.MaxReadAhead says.
// INIT can only lower what the kernel starts with, 128 KiB, so a sequential
// reader would never get a request of MaxWrite. Root can raise it afterwards;
// for others, and where /sys is read-only, it stays as it is.
func raiseReadAhead(device string, offered uint32, opts *fuse.MountOptions) error {
	if opts.MaxReadAhead <= int(offered) {
		return nil
	}
	kib := strconv.Itoa(min(opts.MaxReadAhead, opts.MaxWrite) >> 10)
	return os.WriteFile("/sys/class/bdi/"+device+"/read_ahead_kb", []byte(kib), 0)
}
