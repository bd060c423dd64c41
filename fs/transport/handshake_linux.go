package transport

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// handshake answers INIT, the connection's first request, and returns what
// the kernel said in it. What is agreed on is fuse.ProtocolServer's choice,
// made from the mount's options: capabilities, MaxWrite, MaxPages, read-ahead,
// stack depth. It leaves TimeGran at 0, which the kernel reads as one
// nanosecond.
func handshake(dev *device, proto requestHandler, maxWrite int) (fuse.InitIn, error) {
	buf := newBuffers(maxWrite)
	n, errno := readInit(dev.fd, buf.in)
	if errno != 0 {
		return fuse.InitIn{}, fmt.Errorf("reading INIT: %w", errno)
	}
	var in fuse.InitIn
	copy(bytesOf(&in), buf.in[:n])
	if n < inHeaderSize || in.Opcode != opInit {
		return fuse.InitIn{}, fmt.Errorf("first request is %s: %w", opName(in.Opcode), syscall.EPROTO)
	}
	n, status := proto.HandleRequest([][]byte{buf.in[:n]}, [][]byte{buf.out})
	if n == 0 {
		n = refuse(buf.out, in.Unique, status)
	}
	answer := (*fuse.OutHeader)(unsafe.Pointer(&buf.out[0]))
	if errno := write(dev.fd, buf.out[:n]); errno != 0 {
		return fuse.InitIn{}, fmt.Errorf("answering INIT: %w", errno)
	}
	if answer.Status != 0 {
		return fuse.InitIn{}, fmt.Errorf("protocol %d.%d: %w", in.Major, in.Minor, syscall.EPROTO)
	}
	return in, nil
}

// readInit reads the first request.
func readInit(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, errno := read(fd, p)
		switch errno {
		case syscall.EINTR, syscall.EAGAIN, syscall.ENOENT:
			continue
		}
		return n, errno
	}
}
