//go:build linux

package fs_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
)

// soak makes the random tests longer: -soak 100 is for a run by hand.
var soak = flag.Int("soak", 1, "how many times the usual number of random operations")

// TestRandomIO does random operations on one file, through several descriptors
// and a shared mapping, and compares it with what it has to hold.
func TestRandomIO(t *testing.T) {
	for _, k := range append([]kind{{"store", routedTree}}, kinds...) {
		for _, pass := range []bool{true, false} {
			for _, uid := range []uint32{0, 1000} {
				t.Run(fmt.Sprintf("%s/passthrough=%v/uid=%d", k.name, pass, uid), func(t *testing.T) {
					t.Parallel()
					content := string(bytes.Repeat([]byte("project"), 9000))
					m := mount(t, k.layer(t, seed{"file", 0o666, content}, seed{"memory/", 0o777, ""}, seed{"memory/file", 0o666, content}), fs.Options{Passthrough: pass})
					path := m.path("file")
					if k.name == "store" {
						path = m.path("memory/file")
					}
					now := strconv.FormatInt(time.Now().UnixNano(), 10)
					t.Log(run(t, uid, "random", path, now, strconv.Itoa(2000**soak)))
				})
			}
		}
	}
}

// A randomFile is a file and what it has to hold.
type randomFile struct {
	*rand.Rand
	path string
	want []byte
	fds  []int
	last string // what was done last, for messages
}

// randomBound bounds the file's size.
const randomBound = 1 << 18

// playRandom does args[2] random operations, seeded with args[1], on the file
// args[0].
func playRandom(args []string) error {
	n, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n", n)
	r := &randomFile{Rand: rand.New(rand.NewPCG(n, n)), path: args[0]}
	if r.want, err = os.ReadFile(r.path); err != nil {
		return err
	}
	for i := range count {
		if err := r.step(); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, r.last, err)
		}
		if i%50 == 0 {
			if err := r.compare(); err != nil {
				return fmt.Errorf("after operation %d, %s: %w", i, r.last, err)
			}
		}
	}
	return r.compare()
}

// compare reads the whole file anew.
func (r *randomFile) compare() error {
	got, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	return r.equal("the file", got, r.want)
}

func (r *randomFile) equal(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s: got %d bytes, want %d; they differ from %d", what, len(got), len(want), at)
}

// fd returns a descriptor to work with: one that is open, or a new one.
func (r *randomFile) fd() (int, error) {
	if len(r.fds) > 0 && r.IntN(4) > 0 {
		return r.fds[r.IntN(len(r.fds))], nil
	}
	fd, err := unix.Open(r.path, unix.O_RDWR, 0)
	if err == nil {
		r.fds = append(r.fds, fd)
	}
	return fd, err
}

// place returns an offset and a length.
func (r *randomFile) place() (off, size int) {
	return r.IntN(randomBound - 1), 1 + r.IntN(16<<10)
}

// bytes returns size random bytes.
func (r *randomFile) bytes(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// put changes what the file has to hold.
func (r *randomFile) put(off int, b []byte) {
	if grow := off + len(b) - len(r.want); grow > 0 {
		r.want = append(r.want, make([]byte, grow)...)
	}
	copy(r.want[off:], b)
}

// step does one operation.
func (r *randomFile) step() error {
	fd, err := r.fd()
	if err != nil {
		return err
	}
	off, size := r.place()
	size = min(size, randomBound-off)
	switch op := r.IntN(20); op {
	case 0, 1, 2, 3:
		r.last = fmt.Sprintf("write %d at %d", size, off)
		b := r.bytes(size)
		n, err := unix.Pwrite(fd, b, int64(off))
		r.put(off, b[:max(n, 0)])
		return err
	case 4, 5, 6, 7:
		r.last = fmt.Sprintf("read %d at %d", size, off)
		b := make([]byte, size)
		n, err := unix.Pread(fd, b, int64(off))
		if err != nil {
			return err
		}
		return r.equal("read", b[:n], r.want[min(off, len(r.want)):min(off+size, len(r.want))])
	case 8:
		r.last = fmt.Sprintf("truncate to %d", off)
		r.cut(off)
		return unix.Ftruncate(fd, int64(off))
	case 9:
		r.last = fmt.Sprintf("truncate by name to %d", off)
		r.cut(off)
		return unix.Truncate(r.path, int64(off))
	case 10:
		r.last = fmt.Sprintf("punch %d at %d", size, off)
		if off < len(r.want) {
			clear(r.want[off:min(off+size, len(r.want))])
		}
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(size))
	case 11:
		r.last = fmt.Sprintf("allocate %d at %d", size, off)
		r.put(off+size, nil)
		return unix.Fallocate(fd, 0, int64(off), int64(size))
	case 12, 13, 14:
		r.last = fmt.Sprintf("map %d at %d", size, off)
		return r.throughMap(fd, off, size, op == 12)
	case 15:
		r.last = "append"
		return r.append(r.bytes(size))
	case 16:
		r.last = "fsync"
		return unix.Fsync(fd)
	case 17:
		r.last = fmt.Sprintf("copy %d at %d", size, off)
		return r.copy(fd, off, size)
	case 18:
		r.last = "stat"
		var st unix.Stat_t
		if err := unix.Stat(r.path, &st); err != nil {
			return err
		}
		if st.Size != int64(len(r.want)) {
			return fmt.Errorf("size: got %d, want %d", st.Size, len(r.want))
		}
		return nil
	default:
		r.last = "close all"
		for _, fd := range r.fds {
			if err := unix.Close(fd); err != nil {
				return err
			}
		}
		r.fds = nil
		return nil
	}
}

// cut sets the size that the file has to have.
func (r *randomFile) cut(size int) {
	r.put(size, nil)
	r.want = r.want[:size:size]
}

// append writes b to the end.
func (r *randomFile) append(b []byte) error {
	if len(r.want)+len(b) > randomBound {
		return nil
	}
	fd, err := unix.Open(r.path, unix.O_WRONLY|unix.O_APPEND, 0)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, b)
	r.put(len(r.want), b[:max(n, 0)])
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// throughMap reads or writes a part of the file through a shared mapping.
func (r *randomFile) throughMap(fd, off, size int, write bool) error {
	off &^= os.Getpagesize() - 1
	size = min(size, len(r.want)-off)
	if size <= 0 {
		return nil
	}
	m, err := unix.Mmap(fd, int64(off), size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := r.equal("mapping", m, r.want[off:off+size]); err != nil {
		return err
	}
	if write {
		copy(m, r.bytes(size))
		r.put(off, m)
	}
	return unix.Munmap(m)
}

// copy copies a part of the file behind itself within the kernel.
func (r *randomFile) copy(fd, off, size int) error {
	to := off + size
	size = min(size, len(r.want)-off, randomBound-to)
	if size <= 0 {
		return nil
	}
	from, dest := int64(off), int64(to)
	n, err := unix.CopyFileRange(fd, &from, fd, &dest, size, 0)
	if n > 0 {
		r.put(to, bytes.Clone(r.want[off:off+n]))
	}
	return err
}
