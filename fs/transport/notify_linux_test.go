package transport

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// nodeOf returns the node id of a name of fs.
func nodeOf(fs *testFS, name string) uint64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.names[name]
}

// edit changes fs behind the kernel's back.
func edit(fs *testFS, f func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f()
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fs := newTestFS()
			fs.attrTime = time.Hour
			s := serve(t, fs, o)
			file := filepath.Join(s.Mountpoint(), "file")
			size := func() int64 {
				t.Helper()
				st, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				return st.Size()
			}
			old := size()
			edit(fs, func() { fs.files[fs.names["file"]].data = nil })
			if got := size(); got != old {
				t.Fatalf("size before InodeNotify: got %d, want the cached %d", got, old)
			}
			if got := s.InodeNotify(nodeOf(fs, "file"), 0, 0); got != fuse.OK {
				t.Errorf("InodeNotify: got %v", got)
			}
			if got := size(); got != 0 {
				t.Errorf("size after InodeNotify: got %d, want 0", got)
			}
			want := int64(0)
			for name, notify := range map[string]func() fuse.Status{
				"EntryNotify":  func() fuse.Status { return s.EntryNotify(fuse.FUSE_ROOT_ID, "file") },
				"ExpireEntry":  func() fuse.Status { return s.ExpireEntry(fuse.FUSE_ROOT_ID, "file") },
				"DeleteNotify": func() fuse.Status { return s.DeleteNotify(fuse.FUSE_ROOT_ID, nodeOf(fs, "file"), "file") },
			} {
				if got := size(); got != want {
					t.Fatalf("size before %s: got %d, want the cached %d", name, got, want)
				}
				if got := notify(); got != fuse.OK {
					t.Errorf("%s: got %v", name, got)
				}
				want++
				edit(fs, func() { fs.addLocked("file").data = make([]byte, want) })
				if got := size(); got != want {
					t.Errorf("size after %s and a new file of the name: got %d, want %d", name, got, want)
				}
			}
			if got := s.InodeNotify(987654, 0, 0); got != fuse.ENOENT {
				t.Errorf("InodeNotify of a node the kernel does not know: got %v, want ENOENT", got)
			}
		})
	}
}

func TestNotificationsAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, newTestFS(), Options{})
	if err := unmountIdle(s); err != nil {
		t.Fatal(err)
	}
	if got := s.InodeNotify(fuse.FUSE_ROOT_ID, 0, 0); got != fuse.Status(syscall.EBADF) {
		t.Errorf("InodeNotify after Unmount: got %v, want EBADF", got)
	}
	if _, errno := s.RegisterBackingFd(&fuse.BackingMap{}); errno != syscall.EBADF {
		t.Errorf("RegisterBackingFd after Unmount: got %v, want EBADF", errno)
	}
}

func TestBackingFiles(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := serve(t, newTestFS(), o)
			if s.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
				need(t, "passthrough", false)
			}
			f, err := os.Create(filepath.Join(t.TempDir(), "backing"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			id, errno := s.RegisterBackingFd(&fuse.BackingMap{Fd: int32(f.Fd())})
			if errno != 0 || id <= 0 {
				t.Fatalf("RegisterBackingFd: got %d, %v, want an id", id, errno)
			}
			if errno := s.UnregisterBackingFd(id); errno != 0 {
				t.Errorf("UnregisterBackingFd: got %v", errno)
			}
			if errno := s.UnregisterBackingFd(id); errno != syscall.ENOENT {
				t.Errorf("second UnregisterBackingFd: got %v, want ENOENT", errno)
			}
		})
	}
}

// badFS answers in ways that the kernel refuses.
type badFS struct{ *testFS }

func (f badFS) GetXAttr(_ <-chan struct{}, _ *fuse.InHeader, name string, _ []byte) (uint32, fuse.Status) {
	if name == "user.panic" {
		panic("handler")
	}
	return 0, fuse.Status(100000)
}

func TestEveryRequestIsAnswered(t *testing.T) {
	t.Parallel()
	opts := testOptions()
	opts.PanicHandler = func(any) fuse.Status { return fuse.EIO }
	needMount(t)
	s, err := Mount(t.TempDir(), badFS{newTestFS()}, opts, Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	defer s.Detach()
	for _, name := range []string{"user.panic", "user.nonsense"} {
		var b [10]byte
		_, err := unix.Getxattr(filepath.Join(s.Mountpoint(), "file"), name, b[:])
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("Getxattr %s: got %v, want EIO", name, err)
		}
	}
}
