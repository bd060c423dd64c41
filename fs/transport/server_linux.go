package transport

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A Server serves one mount.
type Server struct {
	point   string        // immutable; absolute, without links
	grace   time.Duration // immutable
	log     *slog.Logger  // immutable
	device  string        // immutable; "major:minor" of the mount, "" if it went at once
	kernel  fuse.InitIn   // immutable
	readers int           // immutable

	plain *fuse.Server // immutable; nil unless go-fuse serves

	raw  fuse.RawFileSystem // immutable
	dev  *device            // immutable; nil in plain mode
	crew *crew              // immutable; nil in plain mode

	begun   atomic.Bool
	ready   chan struct{} // closed when requests are being read
	served  chan struct{} // closed when Serve has nothing more to do
	goneOne sync.Once
}

// Mount mounts raw on mountpoint, an existing directory, and agrees with the
// kernel on the protocol. Nothing is answered before Serve, so the caller may
// still set raw up with the server: raw.Init is called in plain mode only,
// since it wants a *fuse.Server.
//
// opts.Name gives the type fuse.NAME ("wsfs" if empty), opts.FsName the source.
// nosuid and nodev always hold. A dead mount of the same type on mountpoint is
// replaced. Errors are *fs.PathError: EBUSY if a living mount of the type is
// there, ENOENT, ENOTDIR, EPERM, EINVAL for an option the kernel does not know.
func Mount(mountpoint string, raw fuse.RawFileSystem, opts *fuse.MountOptions, o Options) (*Server, error) {
	mopts, o := withMountDefaults(opts), o.withDefaults()
	err := Detach(mountpoint, mopts.Name)
	if err != nil {
		return nil, err
	}
	point, err := realPoint(mountpoint)
	if err != nil {
		return nil, err
	}
	fd, err := attach(point, mopts)
	if err != nil {
		return nil, err
	}
	serving.Add(1)
	s := &Server{
		point: point, grace: o.Grace, log: o.Log, raw: raw, readers: o.Readers,
		ready: make(chan struct{}), served: make(chan struct{}),
	}
	if o.Plain || mopts.SingleThreaded {
		err = s.servePlain(fd, mopts)
	} else {
		err = s.serveLoop(fd, mopts, o)
	}
	if err != nil {
		serving.Add(-1)
		return nil, mountError(point, errors.Join(err, unmount(point, true)))
	}
	top, _, err := topMount(point)
	if err != nil {
		return nil, errors.Join(err, unmount(point, true))
	}
	s.device = top.device
	if err := raiseReadAhead(s.device, s.kernel.MaxReadAhead, mopts); err != nil {
		s.log.Debug("fuse: read-ahead stays as the kernel has it", "err", err)
	}
	return s, nil
}

// serveLoop prepares for this package's own loop. It owns fd.
func (s *Server) serveLoop(fd int, opts *fuse.MountOptions, o Options) (err error) {
	s.dev = &device{fd: fd}
	proto := fuse.NewProtocolServer(s.raw, opts)
	if s.kernel, err = handshake(s.dev, proto, opts.MaxWrite); err != nil {
		s.dev.close()
		return err
	}
	s.crew = newCrew(proto, s.dev, opts.MaxWrite, o)
	return nil
}

// pipeSize is the most that a pipe takes (fs.pipe-max-size as it comes).
const pipeSize = 1 << 20

// servePlain hands the mounted descriptor to go-fuse, which owns it then.
func (s *Server) servePlain(fd int, opts *fuse.MountOptions) (err error) {
	if opts.MaxWrite >= pipeSize {
		opts.DisableSplice = true // go-fuse would try, fail and log it for each large READ
	}
	s.plain, err = fuse.NewServer(s.raw, "/dev/fd/"+strconv.Itoa(fd), opts)
	if err != nil {
		return err
	}
	s.kernel = *s.plain.KernelSettings()
	return nil
}

// KernelSettings returns what the kernel said when the mount began. It must
// not be changed.
func (s *Server) KernelSettings() *fuse.InitIn {
	k := s.kernel
	return &k
}

// Mountpoint returns the absolute path of the mount, without links.
func (s *Server) Mountpoint() string { return s.point }

// Serve answers requests until the mount is gone and the last request has been
// handled, then calls the file system's OnUnmount. It is called once. Requests
// that are being handled when the mount goes have their cancel channel closed.
func (s *Server) Serve() {
	if !s.begun.CompareAndSwap(false, true) {
		panic("BUG: transport: Serve called twice")
	}
	defer s.gone()
	close(s.ready)
	if s.plain != nil {
		s.plain.Serve()
		return
	}
	s.crew.serve(s.readers)
	s.dev.close()
	s.raw.OnUnmount()
}

// gone records that nothing is served any more.
func (s *Server) gone() {
	s.goneOne.Do(func() {
		serving.Add(-1)
		close(s.served)
	})
}

// WaitMount waits for Serve and for the mount to answer. Afterwards the kernel
// no longer sends POLL, which Go's own poller would send for a file that is
// opened on the mount in this process, and deadlock.
func (s *Server) WaitMount() error {
	select {
	case <-s.ready:
	case <-s.served:
		return mountError(s.point, syscall.ENODEV)
	}
	return refusePoll(s.point)
}

// pollName is a name that go-fuse answers itself, with a file whose POLL is
// refused for ever (go-fuse fuse/poll.go).
const pollName = ".go-fuse-epoll-hack"

func refusePoll(point string) error {
	fd, err := unix.Open(point+"/"+pollName, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountError(point, err)
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLPRI | unix.POLLOUT}}
	_, err = unix.Poll(fds, 0)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return mountError(point, err)
	}
	return nil
}

// Stats reads the counters; in plain mode there are none.
func (s *Server) Stats() Stats {
	if s.crew == nil {
		return Stats{}
	}
	return s.crew.stats()
}
