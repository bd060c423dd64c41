package disklayer

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// attrOf returns what st tells, for a file of source.
func attrOf(st *unix.Stat_t, source overlay.Source) overlay.Attr {
	return overlay.Attr{
		Dev:    uint64(st.Dev),
		Ino:    st.Ino,
		Mode:   st.Mode,
		Nlink:  uint32(st.Nlink),
		UID:    st.Uid,
		GID:    st.Gid,
		Rdev:   uint64(st.Rdev),
		Size:   st.Size,
		Blocks: st.Blocks,
		Atime:  time.Unix(st.Atim.Unix()),
		Mtime:  time.Unix(st.Mtim.Unix()),
		Ctime:  time.Unix(st.Ctim.Unix()),
		Source: source,
	}
}

// timespec returns t as the kernel takes it, or ERANGE.
func timespec(t time.Time) (unix.Timespec, error) { return unix.TimeToTimespec(t) }
