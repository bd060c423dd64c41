package disklayer

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// The kernel's struct linux_dirent64: ino and off, 8 bytes each, the record's
// length in 2, the type in 1, the name with a NUL.
const (
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// parseDirents appends the entries in buf, as getdents64 filled it, to entries.
// The type is 0 where the file system does not tell it.
func parseDirents(buf []byte, dev uint64, entries []overlay.Entry) ([]overlay.Entry, error) {
	for len(buf) > 0 {
		if len(buf) < direntName {
			return nil, unix.EIO
		}
		size := int(binary.NativeEndian.Uint16(buf[direntLen:]))
		if size < direntName || size > len(buf) {
			return nil, unix.EIO
		}
		name, _, ended := bytes.Cut(buf[direntName:size], []byte{0})
		if !ended || len(name) == 0 {
			return nil, unix.EIO
		}
		if s := string(name); s != "." && s != ".." {
			entries = append(entries, overlay.Entry{
				Name: s,
				Type: uint32(buf[direntType]) << 12, // DT_* is S_IF* >> 12
				Dev:  dev,
				Ino:  binary.NativeEndian.Uint64(buf),
			})
		}
		buf = buf[size:]
	}
	return entries, nil
}
