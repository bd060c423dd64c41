package disklayer

import (
	"encoding/binary"
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

// An origin is the mark wsfs.origin: who a file was before it was copied up.
type origin struct {
	ino uint64 // as Attr.Origin
	// links is what the shown link count has over the file system's: names of
	// the lower file that were not copied up, less the link in the index. It
	// counts if indexed.
	links   int32
	indexed bool
}

// bytes returns o as the mark's value.
func (o origin) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, o.ino)
	if o.indexed {
		b = binary.BigEndian.AppendUint32(b, uint32(o.links))
	}
	return b
}

// parseOrigin is the reverse of bytes; the zero origin for what is none.
func parseOrigin(b []byte) origin {
	switch len(b) {
	case 8:
		return origin{ino: binary.BigEndian.Uint64(b)}
	case 12:
		return origin{
			ino:     binary.BigEndian.Uint64(b),
			links:   int32(binary.BigEndian.Uint32(b[8:])),
			indexed: true,
		}
	}
	return origin{}
}

// shownLinks returns the link count that is told of a file with real links.
func (o origin) shownLinks(real uint32) uint32 {
	if !o.indexed {
		return real
	}
	return uint32(max(int64(real)+int64(o.links), 1))
}

// timespec returns t as the kernel takes it, or ERANGE.
func timespec(t time.Time) (unix.Timespec, error) { return unix.TimeToTimespec(t) }
