package disklayer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

func newHost(t *testing.T) (*Host, string) {
	t.Helper()
	dir := t.TempDir()
	h, err := OpenHost(dir, Options{})
	must(t, "OpenHost", err)
	t.Cleanup(func() { must(t, "Close", h.Close()) })
	return h, dir
}

func put0(t testing.TB, dir, name, data string) {
	t.Helper()
	must(t, "WriteFile", os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
}

// A diary records the calls of a watch.
type diary struct {
	mu    sync.Mutex
	seen  []string
	again chan struct{}
}

func newDiary() *diary { return &diary{again: make(chan struct{}, 1)} }

func (d *diary) note(child string) {
	d.mu.Lock()
	d.seen = append(d.seen, child)
	d.mu.Unlock()
	select {
	case d.again <- struct{}{}:
	default:
	}
}

// wait returns once one of children was told, or fails after a long time.
func (d *diary) wait(t *testing.T, children ...string) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		d.mu.Lock()
		found := slices.ContainsFunc(d.seen, func(c string) bool { return slices.Contains(children, c) })
		if found {
			d.seen = nil
		}
		d.mu.Unlock()
		if found {
			return
		}
		select {
		case <-d.again:
		case <-limit:
			t.Fatalf("no call for %q; had %q", children, d.seen)
		}
	}
}

func TestHostIsReadAfresh(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	must(t, "MkdirAll", os.MkdirAll(dir+"/a/b", 0o755))
	put0(t, dir, "a/b/f", "one")
	if got := read(t, h, "a/b/f"); got != "one" {
		t.Errorf("a/b/f holds %q", got)
	}
	must(t, "Rename", os.Rename(dir+"/a", dir+"/old"))
	_, err := h.Lstat(t.Context(), "a/b/f")
	want(t, "Lstat after a move on the host", err, syscall.ENOENT)
	must(t, "MkdirAll", os.MkdirAll(dir+"/a/b", 0o755))
	put0(t, dir, "a/b/f", "two")
	if got := read(t, h, "a/b/f"); got != "two" {
		t.Errorf("a/b/f holds %q after the directory was replaced", got)
	}
	if _, ok := any(h).(overlay.Whiteouter); ok {
		t.Error("a Host claims to have whiteouts")
	}
	must(t, "Mkfifo", unix.Mkfifo(dir+"/fifo", 0o600))
	_, err = h.Open(t.Context(), "fifo")
	want(t, "Open of a FIFO", err, syscall.EINVAL)
	_, err = h.Open(t.Context(), "a")
	want(t, "Open of a directory", err, syscall.EISDIR)
	must(t, "Symlink", os.Symlink("a", dir+"/l"))
	_, err = h.Open(t.Context(), "l/b/f")
	want(t, "Open through a link", err, syscall.ENOTDIR)
	_, err = h.Open(t.Context(), "l")
	want(t, "Open of a link", err, syscall.EINVAL)
}

// TestHostOpenOfWhatIsSwapped opens a name that is a file, a FIFO and a link in
// turns: what is opened is the file, and nothing waits for the FIFO's other end.
func TestHostOpenOfWhatIsSwapped(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	must(t, "Mkfifo", unix.Mkfifo(dir+"/fifo", 0o600))
	must(t, "Symlink", os.Symlink("/dev/null", dir+"/link"))
	put0(t, dir, "file", "data")
	put0(t, dir, "name", "data")
	end := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			other := dir + []string{"/fifo", "/link", "/file"}[i%3]
			for range 2 { // there and back
				if err := unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, dir+"/name", unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 20000 {
		hd, err := h.Open(t.Context(), "name")
		if errnoOf(err) == syscall.EINVAL || errnoOf(err) == syscall.ENOTDIR {
			continue
		}
		must(t, "Open", err)
		a, err := hd.Stat(t.Context())
		if err != nil || !a.IsRegular() || a.Size != 4 {
			t.Errorf("opened: got %+v, %v, want the file", a, err)
		}
		must(t, "Close", hd.Close())
	}
	close(end)
	swapper.Wait()
}

func TestHostKeepsAccessTimes(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	put0(t, dir, "f", "data")
	old := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, path := range []string{dir + "/f", dir} {
		must(t, "Chtimes", os.Chtimes(path, old, time.Now()))
	}
	read(t, h, "f")
	_, err := h.ReadDir(t.Context(), ".")
	must(t, "ReadDir", err)
	for _, name := range []overlay.Name{"f", "."} {
		if a, err := h.Lstat(t.Context(), name); err != nil || !a.Atime.Equal(old) {
			t.Errorf("access time of %q is %v, %v after it was read; want %v", name, a.Atime, err, old)
		}
	}
}

func TestWatchTells(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	must(t, "MkdirAll", os.MkdirAll(dir+"/a/b", 0o755))
	d := newDiary()
	stop, err := h.Watch(t.Context(), "a/b", d.note)
	must(t, "Watch", err)
	_, err = h.Lstat(t.Context(), "a/b/f") // caches the directory
	want(t, "Lstat", err, syscall.ENOENT)

	put0(t, dir, "a/b/f", "1")
	d.wait(t, "f")
	must(t, "Chmod", os.Chmod(dir+"/a/b/f", 0o600))
	d.wait(t, "f")
	must(t, "Rename", os.Rename(dir+"/a/b/f", dir+"/a/b/g"))
	d.wait(t, "g")
	must(t, "Remove", os.Remove(dir+"/a/b/g"))
	d.wait(t, "g")

	// A directory above is moved and another takes its place.
	put0(t, dir, "a/b/f", "old")
	d.wait(t, "f")
	must(t, "Rename", os.Rename(dir+"/a", dir+"/moved"))
	d.wait(t, "")
	must(t, "MkdirAll", os.MkdirAll(dir+"/a/b", 0o755))
	d.wait(t, "")
	put0(t, dir, "a/b/new", "new")
	d.wait(t, "new", "") // it may have come before the new directory was watched
	if a, err := h.Lstat(t.Context(), "a/b/new"); err != nil || a.Size != 3 {
		t.Errorf("Lstat in the new directory: %+v, %v", a, err)
	}
	_, err = h.Lstat(t.Context(), "a/b/f")
	want(t, "Lstat of a file that moved away", err, syscall.ENOENT)
	stop()
	stop()
	if n := len(h.watch.points); n != 0 {
		t.Errorf("%d directories are watched after stop", n)
	}
	_, err = h.Watch(t.Context(), "nothing/here", d.note)
	want(t, "Watch of nothing", err, syscall.ENOENT)
	if n := len(h.watch.points); n != 0 {
		t.Errorf("%d directories are watched after Watch failed", n)
	}
}

func TestStopWithinACall(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	d := newDiary()
	var stop func()
	var mu sync.Mutex
	mu.Lock()
	stop, err := h.Watch(t.Context(), ".", func(child string) {
		mu.Lock()
		defer mu.Unlock()
		stop()
		d.note(child)
	})
	mu.Unlock()
	must(t, "Watch", err)
	put0(t, dir, "x", "")
	d.wait(t, "x")
}

func TestOverflowTellsEverybody(t *testing.T) {
	// Not parallel: the overflow is that of the whole process.
	h, dir := newHost(t)
	must(t, "Mkdir", os.Mkdir(dir+"/d", 0o755))
	d := newDiary()
	_, err := h.Watch(t.Context(), "d", d.note)
	must(t, "Watch", err)
	n, err := sharedNotifier()
	must(t, "notifier", err)
	before := Overflows()
	n.push(nil, true)
	d.wait(t, "")
	if Overflows() == before {
		t.Error("the overflow was not counted")
	}
	put0(t, dir, "d/f", "")
	d.wait(t, "f")
}

// A link that takes a directory's place for a moment never leads out of the
// layer.
func TestLinksInTheMiddleAreNeverFollowed(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	outside := t.TempDir()
	put0(t, outside, "f", "secret")
	must(t, "Mkdir", os.Mkdir(dir+"/d", 0o755))
	put0(t, dir, "d/f", "public")
	must(t, "Symlink", os.Symlink(outside, dir+"/l"))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/l", unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 20000 {
		if got := read(t, h, "d/f"); got != "public" && got != "error: "+syscall.ENOTDIR.Error() {
			t.Errorf("d/f holds %q", got)
		}
	}
	close(quit)
	<-done
}

// Many watched directories that go at once are all told, in reasonable time.
func TestManyWatchedDirectoriesGo(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	const n = 2000
	diaries := make([]*diary, n)
	must(t, "Mkdir", os.Mkdir(dir+"/d", 0o755))
	for i := range n {
		name := fmt.Sprintf("d/%d", i)
		must(t, "Mkdir", os.Mkdir(filepath.Join(dir, name), 0o755))
		diaries[i] = newDiary()
		_, err := h.Watch(t.Context(), overlay.Name(name), diaries[i].note)
		must(t, "Watch", err)
	}
	must(t, "RemoveAll", os.RemoveAll(dir+"/d"))
	for _, d := range diaries {
		d.wait(t, "")
	}
}
