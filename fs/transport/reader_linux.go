package transport

import (
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Opcodes that the transport itself has to know.
const (
	opInit          = 26
	opInterrupt     = 36
	opFsync         = 20
	opFsyncDir      = 30
	opCopyFileRange = 47
	opSyncFS        = 50
)

const (
	inHeaderSize  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))
	// writeHeaderSize is what comes before the data of a WRITE. Buffers are
	// laid out so that the data starts a page, as a backing file opened with
	// O_DIRECT wants it.
	writeHeaderSize = int(unsafe.Sizeof(fuse.WriteIn{}))
	// answerRoom is for the fixed part of any answer, in front of its data.
	answerRoom = 4096
)

// buffers are the memory that one reader needs. They are ordinary heap
// memory: a handler that keeps a slice for too long reads wrong bytes, but
// brings nothing down.
type buffers struct {
	in  []byte // a request; data of a WRITE starts a page
	out []byte // its answer; data of a READ starts a page
}

func newBuffers(maxWrite int) *buffers {
	return &buffers{
		in:  aligned(writeHeaderSize, maxWrite+answerRoom),
		out: aligned(outHeaderSize, maxWrite+answerRoom),
	}
}

// aligned returns head+size bytes of which the one after head starts a page.
func aligned(head, size int) []byte {
	page := unix.Getpagesize()
	b := make([]byte, head+size+page)
	skip := -(int(uintptr(unsafe.Pointer(&b[0]))) + head) & (page - 1)
	return b[skip : skip+head+size]
}

// A reader takes requests from the device one after the other and answers
// each before it takes the next.
type reader struct {
	crew  *crew          // immutable
	fd    int            // immutable; where requests are read and answers go
	proto requestHandler // immutable
	tally *tally         // immutable
	buf   *buffers       // immutable while the reader runs
	spare bool           // immutable
	iov   [2][1][]byte   // in and out of HandleRequest, kept to save an allocation

	// inflight is the number of the request that is being handled, else 0.
	// Set by the reader alone.
	inflight atomic.Uint64
	// served counts answered requests, waited is the time in ns spent waiting
	// for one, and free is when the last one was answered, or the reader
	// started. Set by the reader alone.
	served       atomic.Uint64
	waited, free atomic.Int64
	// yielded is when Go's scheduler was last let in.
	yielded time.Duration
	// cancelled is the request that has been interrupted because the
	// connection ended. Only (*crew).cancelInflight uses it.
	cancelled uint64
}

// requestHandler is what a reader needs of fuse.ProtocolServer.
type requestHandler interface {
	HandleRequest(in [][]byte, out [][]byte) (int, fuse.Status)
}

// maxReadFailures is how many reads may fail one after the other, for reasons
// that have no rule, before a reader gives up.
const maxReadFailures = 16

// turn is how long a reader runs before it lets Go's scheduler in. One that
// never did would be preempted with a signal every 10 ms, which interrupts what
// it waits for, and keep the runtime's monitor awake, which costs a twentieth
// of the server's time.
const turn = 5 * time.Millisecond

// run serves until the connection ends, or until the reader is a spare that
// is no longer needed. It returns the errno that ended it: ENODEV after an
// unmount, 0 for a spare.
func (r *reader) run() syscall.Errno {
	failures := 0
	for {
		n, errno := read(r.fd, r.buf.in)
		switch errno {
		case 0:
			failures = 0
		case syscall.EINTR, syscall.EAGAIN, syscall.ENOENT:
			continue // ENOENT: the request was interrupted before it was read
		case syscall.ENODEV, syscall.ECONNABORTED:
			return syscall.ENODEV
		default:
			if failures++; failures < maxReadFailures {
				continue
			}
			return errno
		}
		r.serve(r.buf.in[:n])
		if r.spare && r.crew.dismiss() {
			return 0
		}
	}
}

// serve handles one request and writes its answer, if it gets one.
func (r *reader) serve(in []byte) {
	if len(in) < inHeaderSize {
		return
	}
	head := (*fuse.InHeader)(unsafe.Pointer(&in[0]))
	op, unique := head.Opcode, head.Unique

	began := now()
	r.begin(op, unique, began)
	r.iov[0][0], r.iov[1][0] = in, r.buf.out
	n, status := r.proto.HandleRequest(r.iov[0][:], r.iov[1][:])
	if n == 0 && !status.Ok() {
		n = refuse(r.buf.out, unique, status)
	}
	failed := n > 0 && (*fuse.OutHeader)(unsafe.Pointer(&r.buf.out[0])).Status != 0
	if n > 0 {
		r.answer(op, unique, r.buf.out[:n])
	}
	ended := now()
	r.end(ended)
	r.tally.add(op, ended-began, failed)
	if ended-r.yielded > turn {
		r.yielded = ended
		goruntime.Gosched()
	}
}

func (r *reader) begin(op uint32, unique uint64, at time.Duration) {
	r.waited.Store(r.waited.Load() + int64(at) - r.free.Load())
	r.inflight.Store(unique)
	r.crew.enter(op)
}

func (r *reader) end(at time.Duration) {
	r.crew.leave()
	r.served.Store(r.served.Load() + 1)
	r.free.Store(int64(at))
	r.inflight.Store(0)
}

// seen returns what the reader is about. Any goroutine may call it; it may be
// off by the request that begins or ends meanwhile.
func (r *reader) seen(at time.Duration) sight {
	s := sight{unique: r.inflight.Load(), served: r.served.Load(), waited: time.Duration(r.waited.Load())}
	if s.unique == 0 {
		s.waited += at - time.Duration(r.free.Load())
	}
	return s
}

// answer writes an answer. Two failures are part of life: ENOENT, nobody waits
// for it any more (interrupted, or the mount went while a RELEASE was
// handled), and ENODEV. After any other the request is still waiting, which
// would hang its caller for ever; it is answered with EIO.
func (r *reader) answer(op uint32, unique uint64, out []byte) {
	errno := write(r.fd, out)
	switch errno {
	case 0, syscall.ENOENT, syscall.ENODEV:
		return
	}
	r.crew.log.Error("fuse: answer refused by the kernel", "op", opName(op), "bytes", len(out), "err", errno)
	write(r.fd, out[:refuse(out, unique, fuse.EIO)])
}

// refuse puts an answer with only a status into out and returns its length.
func refuse(out []byte, unique uint64, status fuse.Status) int {
	head := (*fuse.OutHeader)(unsafe.Pointer(&out[0]))
	*head = fuse.OutHeader{Length: uint32(outHeaderSize), Status: -int32(status), Unique: unique}
	return outHeaderSize
}

// base is the origin of the clock below.
var base = time.Now()

// now is a monotonic clock, cheaper to read than time.Now.
func now() time.Duration { return time.Since(base) }

// read and write tell Go's scheduler that the thread may block (Syscall, not
// RawSyscall): a thread that sits in the kernel unannounced stops the garbage
// collector, and with it the handler that could have ended the wait.
func read(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

func write(fd int, p []byte) syscall.Errno {
	return ignoringEINTR(func() error {
		_, _, errno := syscall.Syscall6(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
}

// ignoringEINTR runs f until a signal is not what ended it and returns its
// errno, 0 for none.
func ignoringEINTR(f func() error) syscall.Errno {
	for {
		err := f()
		if err == nil {
			return 0
		}
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			return syscall.EIO
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}
