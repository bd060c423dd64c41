//go:build linux

package fs

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/wsfs/wsfs/overlay"
)

// Options says how an FS serves its layer. The zero value serves it writable,
// without passthrough, logging to slog.Default.
type Options struct {
	// Passthrough lets the kernel read and write files of the upper layer
	// directly. It takes CAP_SYS_ADMIN and Linux 6.9; where the kernel refuses
	// a file, that file is served without.
	Passthrough bool

	// StackDepth is how many file systems may be stacked below a passthrough
	// file: 0 stands for 1, and 2 is needed where the layers themselves lie on
	// a stacked file system.
	StackDepth int

	// ReadOnly refuses every change with EROFS.
	ReadOnly bool

	// AllowOther lets users other than the one who mounted use the mount. The
	// kernel checks permissions by mode and ACL in any case.
	AllowOther bool

	// FsName is what df shows as the mount's source; empty stands for wsfs.
	FsName string

	// Watches bounds the directories of others that are watched at the same
	// time, 0 stands for DefaultWatches. Directories beyond it are cached for
	// Unwatched.
	Watches int

	// Log receives what goes wrong; nil stands for slog.Default.
	Log *slog.Logger
}

const (
	// Unlimited is how long the kernel keeps what it will be told to drop.
	Unlimited = 10 * 365 * 24 * time.Hour
	// Unwatched is how long it keeps what may change unnoticed.
	Unwatched = time.Second

	// DefaultWatches leaves most of the kernel's usual limit of inotify
	// watches (one per MiB of memory, up to 1,048,576) to others.
	DefaultWatches = 65536

	// maxWrite is the largest READ and WRITE the kernel is asked to send.
	maxWrite = 1 << 20
	// blockSize is the I/O size told to programs (st_blksize).
	blockSize = 4096
)

// A Kernel takes notifications and backing files. fuse.Server is one. Methods
// return ENOENT where the kernel does not know the node or name.
type Kernel interface {
	InodeNotify(node uint64, off, length int64) fuse.Status
	EntryNotify(parent uint64, name string) fuse.Status
	DeleteNotify(parent, child uint64, name string) fuse.Status
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(id int32) syscall.Errno
}

// An Expirer is a Kernel that can have an entry asked for again without
// dropping it, so that working directories in it stay.
type Expirer interface {
	ExpireEntry(parent uint64, name string) fuse.Status
}

// An FS answers FUSE requests from a layer. It implements fuse.RawFileSystem.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS to OPENDIR and other requests we can do without

	layer overlay.Layer // immutable, as are its abilities below
	can   abilities
	opt   Options
	log   *slog.Logger

	kernel atomic.Pointer[Kernel] // set before the first request
	table  table
	segs   segments
	events events
	files  handles
	linger lingering
	lists  listings

	// noPassthrough is set once the kernel has refused passthrough for a
	// reason that will not go away.
	noPassthrough atomic.Bool
	// plain is the thread capabilities a passthrough write has. Set once.
	plain struct {
		sync.Once
		caps threadCaps
	}
}

// abilities are what the layer can do beyond overlay.Layer; nil where it
// cannot.
type abilities struct {
	link    overlay.Linker
	xattr   overlay.Xattrer
	xattrs  overlay.XattrSetter
	node    overlay.Noder
	tmpfile overlay.Tmpfiler
	statfs  overlay.Statfser
	watch   overlay.Watcher
	sync    overlay.Syncer
	syncDir overlay.DirSyncer
	segment overlay.Segmenter
	copyUp  copier
	place   overlay.Placer
}

// A copier is a layer that can be told to copy a file up ahead of a change.
type copier interface {
	CopyUp(ctx context.Context, name overlay.Name) error
}

// New returns an FS that serves layer. Attach a Kernel before the first
// request; a fuse.Server attaches itself.
func New(layer overlay.Layer, opt Options) *FS {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Watches == 0 {
		opt.Watches = DefaultWatches
	}
	f := &FS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		layer:         layer,
		opt:           opt,
		log:           opt.Log,
	}
	f.can.link, _ = overlay.As[overlay.Linker](layer)
	f.can.xattr, _ = overlay.As[overlay.Xattrer](layer)
	f.can.xattrs, _ = overlay.As[overlay.XattrSetter](layer)
	f.can.node, _ = overlay.As[overlay.Noder](layer)
	f.can.tmpfile, _ = overlay.As[overlay.Tmpfiler](layer)
	f.can.statfs, _ = overlay.As[overlay.Statfser](layer)
	f.can.watch, _ = overlay.As[overlay.Watcher](layer)
	f.can.sync, _ = overlay.As[overlay.Syncer](layer)
	f.can.syncDir, _ = overlay.As[overlay.DirSyncer](layer)
	f.can.segment, _ = overlay.As[overlay.Segmenter](layer)
	f.can.copyUp, _ = overlay.As[copier](layer)
	f.can.place, _ = overlay.As[overlay.Placer](layer)
	f.table.init(&f.events)
	f.events.init(f)
	return f
}

// Attach gives f the kernel to notify. It must be called before the first
// request that is not INIT.
func (f *FS) Attach(k Kernel) { f.kernel.Store(&k) }

// MountOptions returns the options that f relies on; a transport may add to
// them.
func (f *FS) MountOptions() *fuse.MountOptions {
	opt := &fuse.MountOptions{
		AllowOther:           f.opt.AllowOther,
		Options:              []string{"default_permissions"},
		FsName:               f.opt.FsName,
		Name:                 "wsfs",
		MaxWrite:             maxWrite,
		MaxReadAhead:         maxWrite,
		MaxBackground:        64,
		MaxStackDepth:        max(f.opt.StackDepth, 1),
		EnableAcl:            true,
		EnableSymlinkCaching: true,
		PanicHandler:         f.panicked,
		// The kernel leaves the umask to us, since a default ACL takes its
		// place; it leaves clearing suid to us, since it would ask for
		// security.capability before each write otherwise.
		ExtraCapabilities: fuse.CAP_DONT_MASK | fuse.CAP_HANDLE_KILLPRIV_V2 |
			fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_SETXATTR_EXT |
			fuse.CAP_ASYNC_DIO | fuse.CAP_HAS_EXPIRE_ONLY,
	}
	if opt.FsName == "" {
		opt.FsName = "wsfs"
	}
	if f.opt.ReadOnly {
		opt.Options = append(opt.Options, "ro")
	}
	if os.Geteuid() == 0 {
		opt.DirectMount = true
	}
	return opt
}

// String returns the name of the file system's type.
func (f *FS) String() string { return "wsfs" }

// SetDebug does nothing: requests are logged by the transport.
func (f *FS) SetDebug(bool) {}

// Init attaches the fuse.Server that serves f, unless a Kernel was attached.
func (f *FS) Init(s *fuse.Server) {
	if s != nil && f.kernel.Load() == nil {
		f.Attach(s)
	}
	if err := f.initRoot(); err != nil {
		f.log.Error("fs: the root directory cannot be read", "err", err)
	}
}

// OnUnmount closes what the kernel had open and stops all watches.
func (f *FS) OnUnmount() {
	f.events.stop()
	for _, h := range f.files.takeAll() {
		f.drop(h)
	}
}

// Stats tell what an FS holds and has met with.
type Stats struct {
	Nodes   int    // files that the kernel has cached or open
	Watched int    // directories of others that are watched
	Lost    uint64 // how often a watch could not say what changed in a directory
	// Passthrough: files are passed through. False where it was not asked for,
	// and once the kernel has refused it for good.
	Passthrough bool
}

// Stats returns f's figures of this moment.
func (f *FS) Stats() Stats {
	f.table.mu.RLock()
	defer f.table.mu.RUnlock()
	return Stats{
		Nodes:       len(f.table.ids),
		Watched:     int(f.events.watching.Load()),
		Lost:        f.events.lost.Load(),
		Passthrough: f.passes(),
	}
}

// panicked logs a panic of a handler and returns the answer to its request.
func (f *FS) panicked(v any) fuse.Status {
	f.log.Error("BUG: fs: a handler panicked", "panic", v, "stack", string(debug.Stack()))
	return fuse.EIO
}

// notify returns the kernel, nil before Attach.
func (f *FS) notify() Kernel {
	if k := f.kernel.Load(); k != nil {
		return *k
	}
	return nil
}

// readOnly returns EROFS if f refuses changes.
func (f *FS) readOnly() fuse.Status {
	if f.opt.ReadOnly {
		return fuse.EROFS
	}
	return fuse.OK
}

var _ fuse.RawFileSystem = (*FS)(nil)

// maxOffset is the largest file offset there is.
const maxOffset = math.MaxInt64
