//go:build linux

package fs_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
	"github.com/wsfs/wsfs/overlay"
)

// An editor changes the project behind the mount's back.
type editor struct {
	*rand.Rand
	dir  string
	want map[string]string // content by name
	n    int
}

// edit makes one random change.
func (e *editor) edit(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("d%d/f%d", e.IntN(3), e.IntN(6))
	path := filepath.Join(e.dir, name)
	content := strings.Repeat(fmt.Sprintf("%d ", e.n), 1+e.IntN(3000))
	e.n++
	old, exists := e.want[name]
	switch op := e.IntN(7); {
	case op == 0 && exists: // remove
		must(t, os.Remove(path))
		delete(e.want, name)
		return name
	case op == 1: // replace
		must(t, os.WriteFile(path+".new", []byte(content), 0o644))
		must(t, os.Rename(path+".new", path))
	case op == 2 && exists: // grow
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = file.WriteString(content)
		must(t, err)
		must(t, file.Close())
		content = old + content
	case op == 3 && exists: // shrink
		must(t, os.Truncate(path, int64(len(old)/2)))
		content = old[:len(old)/2]
	case op == 4 && exists: // rename
		other := fmt.Sprintf("d%d/f%d", e.IntN(3), e.IntN(6))
		must(t, os.Rename(path, filepath.Join(e.dir, other)))
		delete(e.want, name)
		e.want[other] = old
		return other
	case op == 5 && exists && len(old) > 0: // same size
		content = strings.Repeat("x", len(old))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	default: // in place
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	e.want[name] = content
	return name
}

// TestHostEdits changes a project under a mount and reads it through the mount
// right after each change.
func TestHostEdits(t *testing.T) {
	tree, dir := diskTree(t, seed{"d0/", 0o755, ""}, seed{"d1/", 0o755, ""}, seed{"d2/", 0o755, ""})
	m := mount(t, tree, fs.Options{Passthrough: true})
	s := uint64(time.Now().UnixNano())
	t.Logf("seed %d", s)
	e := &editor{Rand: rand.New(rand.NewPCG(s, s)), dir: dir, want: make(map[string]string)}
	for i := range 2000 * *soak {
		name := e.edit(t)
		got, err := os.ReadFile(m.path(name))
		want, exists := e.want[name]
		if exists && (err != nil || string(got) != want) {
			// A name that the kernel knows as another file, or as absent, is
			// put right by an event; the content of a file that is known
			// must be right at once.
			if err == nil {
				t.Fatalf("edit %d: ReadFile(%s): got %d bytes, want %d: %s", i, name, len(got), len(want), difference(got, want))
			}
		}
		if i%20 == 0 {
			eventually(t, fmt.Sprintf("edit %d: %s is right", i, name), func() bool {
				got, err := os.ReadFile(m.path(name))
				return (err == nil) == exists && string(got) == want
			})
		}
	}
	for name, want := range e.want {
		got, err := os.ReadFile(m.path(name))
		if err != nil || string(got) != want {
			t.Errorf("%s in the end: got %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
}

func difference(got []byte, want string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("they differ from %d", i)
		}
	}
	return "one is the beginning of the other"
}

// TestHostEditStat checks that a watched file's size is right soon after a
// change, and an unwatched one's after a second.
func TestHostEditStat(t *testing.T) {
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "1"})
	m := mount(t, tree, fs.Options{})
	var slowest time.Duration
	for i := range 200 {
		size := int64(1 + i%50)
		if _, err := os.Lstat(m.path("d/f")); err != nil {
			t.Fatal(err)
		}
		must(t, os.WriteFile(filepath.Join(dir, "d/f"), bytes.Repeat([]byte("x"), int(size)), 0o644))
		start := time.Now()
		eventually(t, "the size is right", func() bool {
			fi, err := os.Lstat(m.path("d/f"))
			return err == nil && fi.Size() == size
		})
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("the slowest of 200 changes was seen after %v", slowest)
}

// TestHostEditUnwatched does the same where no directory can be watched.
func TestHostEditUnwatched(t *testing.T) {
	t.Parallel()
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "1"})
	m := mount(t, tree, fs.Options{Watches: -1})
	if _, err := os.Lstat(m.path("d/none")); err == nil {
		t.Fatal("d/none exists")
	}
	if _, err := os.Lstat(m.path("d/f")); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "d/f"), []byte("22"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "d/none"), []byte("22"), 0o644))
	if got, err := os.ReadFile(m.path("d/f")); string(got) != "22" {
		t.Errorf("ReadFile right after the change: got %q, %v", got, err)
	}
	eventually(t, "the new name is seen", func() bool {
		fi, err := os.Lstat(m.path("d/none"))
		return err == nil && fi.Size() == 2
	})
}

// TestHostEditListing checks that listings and absent names follow the project.
func TestHostEditListing(t *testing.T) {
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "1"})
	m := mount(t, tree, fs.Options{})
	for i := range 50 {
		name := fmt.Sprintf("n%d", i)
		if _, err := os.Lstat(m.path("d/" + name)); !os.IsNotExist(err) {
			t.Fatalf("Lstat(%s): got %v, want ENOENT", name, err)
		}
		names(t, m.path("d"))
		must(t, os.WriteFile(filepath.Join(dir, "d", name), nil, 0o644))
		eventually(t, name+" is there", func() bool {
			_, err := os.Lstat(m.path("d/" + name))
			return err == nil && len(names(t, m.path("d"))) == i+2
		})
	}
	must(t, os.RemoveAll(filepath.Join(dir, "d")))
	eventually(t, "d is gone", func() bool {
		_, err := os.Lstat(m.path("d"))
		return os.IsNotExist(err)
	})
	must(t, os.MkdirAll(filepath.Join(dir, "d/e"), 0o755))
	eventually(t, "d is back", func() bool {
		_, err := os.Lstat(m.path("d/e"))
		return err == nil
	})
}

// TestHostEditMapping checks that a reader that has a file open and asks for
// its attributes sees it change, and that its directory of work stays.
func TestHostEditKeepsWorkingDirectory(t *testing.T) {
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "1"})
	m := mount(t, tree, fs.Options{})
	cmd := command(t, 0, "script", m.dir, "stat d")
	must(t, cmd.Run())
	fd, err := unix.Open(m.path("d"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	for range 20 {
		now := time.Now()
		must(t, os.Chtimes(filepath.Join(dir, "d"), now, now))
		must(t, os.WriteFile(filepath.Join(dir, "d/f"), []byte(now.String()), 0o644))
	}
	eventually(t, "the change is seen", func() bool {
		b, err := os.ReadFile(m.path("d/f"))
		return err == nil && len(b) > 1
	})
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || link != m.path("d") {
		t.Errorf("an open directory after changes in it: got %q, %v", link, err)
	}
}

// mute is a layer whose watches tell nothing but that all may have changed,
// when the test says so.
type mute struct {
	overlay.Layer
	mu  sync.Mutex
	fns []func(string)
}

func (l *mute) Unwrap() any { return l.Layer }

func (l *mute) Watch(_ context.Context, _ overlay.Name, fn func(string)) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fns = append(l.fns, fn)
	return func() {}, nil
}

func (l *mute) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fn := range l.fns {
		fn("")
	}
}

// TestLostEvents has a layer that cannot say what changed: afterwards nothing
// that the kernel has cached is out of date.
func TestLostEvents(t *testing.T) {
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, "old"}, seed{"d/gone", 0o644, ""}, seed{"d/replaced", 0o644, "1"})
	layer := &mute{Layer: tree}
	m := mount(t, layer, fs.Options{})
	for _, name := range []string{"f", "gone", "replaced", "new"} {
		os.Lstat(m.path("d/" + name))
	}
	names(t, m.path("d"))
	at := func(name string) string { return filepath.Join(dir, "d", name) }
	must(t, os.WriteFile(at("f"), []byte("newer"), 0o644))
	must(t, os.WriteFile(at("new"), []byte("new"), 0o644))
	must(t, os.Remove(at("gone")))
	must(t, os.WriteFile(at("tmp"), []byte("22"), 0o644))
	must(t, os.Rename(at("tmp"), at("replaced")))
	if fi, err := os.Lstat(m.path("d/f")); err != nil || fi.Size() != 3 {
		t.Errorf("Lstat(f) before the event: got %v, %v; want it cached", fi, err)
	}
	layer.tell()
	eventually(t, "nothing is out of date", func() bool {
		_, gone := os.Lstat(m.path("d/gone"))
		f, err1 := os.Lstat(m.path("d/f"))
		n, err2 := os.Lstat(m.path("d/new"))
		r, err3 := os.Lstat(m.path("d/replaced"))
		return os.IsNotExist(gone) && err1 == nil && err2 == nil && err3 == nil &&
			f.Size() == 5 && n.Size() == 3 && r.Size() == 2 && len(names(t, m.path("d"))) == 3
	})
	if m.Stats().Lost == 0 {
		t.Error("Stats().Lost after an event about all: got 0")
	}
}

// TestEventFlood makes more events than the kernel holds for a slow reader: afterwards
// nothing is out of date.
func TestEventFlood(t *testing.T) {
	seeds := []seed{{"d/", 0o755, ""}}
	for i := range 100 {
		seeds = append(seeds, seed{fmt.Sprintf("d/f%d", i), 0o644, "old"})
	}
	tree, dir := diskTree(t, seeds...)
	m := mount(t, tree, fs.Options{})
	look := func() (wrong int) {
		for i := range 100 {
			if fi, err := os.Lstat(m.path(fmt.Sprintf("d/f%d", i))); err != nil || fi.Size() != 5 {
				wrong++
			}
			if _, err := os.Lstat(m.path(fmt.Sprintf("d/new%d", i))); err != nil {
				wrong++
			}
		}
		return wrong
	}
	look()
	for i := range 10000 { // two events each; max_queued_events is 16384
		scratch := filepath.Join(dir, fmt.Sprintf("d/scratch%d", i%2))
		fd, err := syscall.Open(scratch, syscall.O_CREAT|syscall.O_WRONLY, 0o644)
		must(t, err)
		must(t, syscall.Close(fd))
		must(t, syscall.Unlink(scratch))
	}
	for i := range 100 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("d/f%d", i)), []byte("newer"), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("d/new%d", i)), nil, 0o644))
	}
	eventually(t, "nothing is out of date", func() bool { return look() == 0 })
	t.Logf("the queue overflowed %d times", m.Stats().Lost)
}

// TestHostReplacesUnderReaders replaces project files by renames while others
// read them: each reader sees one version, whole.
func TestHostReplacesUnderReaders(t *testing.T) {
	tree, dir := diskTree(t, seed{"d/", 0o755, ""}, seed{"d/f", 0o644, version(0)})
	m := mount(t, tree, fs.Options{})
	cmd := command(t, 0, "versions", m.path("d/f"), strconv.Itoa(3000**soak))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for i := 1; ; i++ {
		must(t, os.WriteFile(filepath.Join(dir, "d/tmp"), []byte(version(i)), 0o644))
		must(t, os.Rename(filepath.Join(dir, "d/tmp"), filepath.Join(dir, "d/f")))
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("a reader: %v\n%s", err, out.String())
			}
			t.Logf("%d versions", i)
			return
		default:
		}
	}
}

// version returns content that tells whether it is whole.
func version(i int) string {
	body := strings.Repeat(string(rune('a'+i%26)), 1+(i*7919)%60000)
	return fmt.Sprintf("%08d%s", len(body), body)
}

// readVersions reads the file args[0] args[1] times in each of four threads.
func readVersions(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	errs := make(chan error, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range count {
				b, err := os.ReadFile(args[0])
				if err == nil {
					err = whole(b)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// whole returns an error unless b is one version.
func whole(b []byte) error {
	if len(b) < 9 {
		return fmt.Errorf("got %d bytes", len(b))
	}
	size, err := strconv.Atoi(string(b[:8]))
	if err != nil || size != len(b)-8 || bytes.Count(b[8:], b[8:9]) != size {
		return fmt.Errorf("got %d bytes of a version of %s, %d of them %q", len(b)-8, b[:8], bytes.Count(b[8:], b[8:9]), b[8])
	}
	return nil
}
