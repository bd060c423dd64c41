//go:build linux

package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashes is how often TestCrash kills the server, unless WSFS_CRASHES says
// otherwise.
const crashes = 12

// TestCrash kills the server with -9 at random moments under load and mounts
// again with the same command. Whatever a writer was told to be done must
// be there; what it was not told yet may be.
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := crashes
	if s := os.Getenv("WSFS_CRASHES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatalf("WSFS_CRASHES: %v", err)
		}
	}
	project := t.TempDir()
	writers := []*writer{
		newWriter(t, 1, project, "disk"), newWriter(t, 2, project, "disk/other"),
		newWriter(t, 3, project, "memory/a"), newWriter(t, 4, project, "skills"),
	}
	before := treeOf(t, project, everything)
	w := mounted(t, project)
	for round := range rounds {
		var running sync.WaitGroup
		stop := make(chan struct{})
		for _, wr := range writers {
			running.Go(func() { wr.work(w.dir, stop) })
		}
		time.Sleep(time.Duration(20+rand.IntN(300)) * time.Millisecond)
		w.kill()
		close(stop)
		running.Wait()
		w.mount()
		for _, wr := range writers {
			if err := wr.verify(w.dir); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	w.unmount()
	w.check()
	w.mount()
	for _, wr := range writers {
		if err := wr.verify(w.dir); err != nil {
			t.Errorf("after the check: %v", err)
		}
		t.Logf("%s: %d operations done in %d rounds", wr.dir, wr.done, rounds)
	}
	if d := before.diff(treeOf(t, project, everything)); d != "" {
		t.Errorf("the project changed:\n%s", d)
	}
}

// A writer changes files in a directory of its own and knows what must be in
// them.
type writer struct {
	dir   string
	rnd   *rand.Rand
	files map[string]string // acknowledged content by name in dir
	// pending is the operation that was not acknowledged: for each name it
	// touches, what reports whether a content (nil if absent) is possible.
	pending map[string]func(content *string) bool
	next    int
	done    int
}

// newWriter returns a writer whose directory holds some project files.
func newWriter(t *testing.T, seed uint64, project, dir string) *writer {
	t.Helper()
	w := &writer{dir: dir, rnd: rand.New(rand.NewPCG(seed, 1)), files: make(map[string]string)}
	for i := range 40 {
		name := fmt.Sprintf("p%d", i)
		w.files[name] = w.content()
		put(t, project, filepath.Join(dir, name), w.files[name])
	}
	return w
}

// content returns a new file content: mostly small, sometimes chunked.
func (w *writer) content() string {
	w.next++
	n := w.rnd.IntN(400)
	if w.rnd.IntN(10) == 0 {
		n = w.rnd.IntN(40_000)
	}
	return strings.Repeat(fmt.Sprintf("%s-%d\n", w.dir, w.next), n/8+1)
}

// work does random operations until stop, or until the server is gone.
func (w *writer) work(mnt string, stop <-chan struct{}) {
	dir := filepath.Join(mnt, w.dir)
	for {
		select {
		case <-stop:
			return
		default:
		}
		if err := w.step(dir); err != nil {
			return // the server was killed: verify looks at what is pending
		}
		w.pending = nil
		w.done++
	}
}

// step does one operation. When it returns nil the operation is acknowledged,
// and files says so.
func (w *writer) step(dir string) error {
	name, old := w.any()
	text := w.content()
	switch w.rnd.IntN(5) {
	case 0: // a new file
		name = fmt.Sprintf("n%d", w.next)
		w.expect(name, func(c *string) bool { return c == nil || strings.HasPrefix(text, *c) })
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	case 1: // appended to
		w.expect(name, func(c *string) bool {
			return c != nil && strings.HasPrefix(*c, old) && strings.HasPrefix(old+text, *c)
		})
		if err := appendTo(filepath.Join(dir, name), text); err != nil {
			return err
		}
		text = old + text
	case 2: // saved as editors do
		tmp := fmt.Sprintf("t%d", w.next)
		w.expect(tmp, func(c *string) bool { return c == nil || strings.HasPrefix(text, *c) })
		w.expect(name, func(c *string) bool { return c != nil && (*c == old || *c == text) })
		if err := os.WriteFile(filepath.Join(dir, tmp), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, tmp), filepath.Join(dir, name)); err != nil {
			return err
		}
	case 3: // renamed
		to := fmt.Sprintf("r%d", w.next)
		either := func(c *string) bool { return c == nil || *c == old }
		w.expect(name, either)
		w.expect(to, either)
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, to)); err != nil {
			return err
		}
		delete(w.files, name)
		name, text = to, old
	case 4: // removed
		if len(w.files) < 20 {
			return nil
		}
		w.expect(name, func(c *string) bool { return c == nil || *c == old })
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
		delete(w.files, name)
		return nil
	}
	w.files[name] = text
	return nil
}

func (w *writer) expect(name string, possible func(*string) bool) {
	if w.pending == nil {
		w.pending = make(map[string]func(*string) bool)
	}
	w.pending[name] = possible
}

// any returns one of the writer's files.
func (w *writer) any() (name, content string) {
	skip := w.rnd.IntN(len(w.files))
	for name, content = range w.files {
		if skip--; skip < 0 {
			break
		}
	}
	return name, content
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// verify compares the directory with what must be in it, and takes what it
// finds of the pending operation for acknowledged.
func (w *writer) verify(mnt string) error {
	found := make(map[string]string)
	entries, err := os.ReadDir(filepath.Join(mnt, w.dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(mnt, w.dir, e.Name()))
		if err != nil {
			return err
		}
		found[e.Name()] = string(data)
	}
	pendingFound := 0
	for name, possible := range w.pending {
		content, ok := found[name]
		if !ok && possible(nil) || ok && possible(&content) {
			if ok {
				pendingFound++
				w.files[name] = content
			} else {
				delete(w.files, name)
			}
			continue
		}
		return fmt.Errorf("%s/%s: after an unfinished operation there (%v) is %.80q", w.dir, name, ok, content)
	}
	for name, want := range w.files {
		got, ok := found[name]
		switch {
		case !ok:
			return &fs.PathError{Op: "verify", Path: w.dir + "/" + name, Err: fs.ErrNotExist}
		case got != want:
			return fmt.Errorf("%s/%s: got %d bytes %.40q, want %d bytes %.40q", w.dir, name, len(got), got, len(want), want)
		}
		delete(found, name)
	}
	for name := range found {
		return fmt.Errorf("%s/%s: came back, or was never made by anyone", w.dir, name)
	}
	if len(w.pending) == 2 && pendingFound == 0 {
		return fmt.Errorf("%s: an unfinished rename lost its file: %v", w.dir, w.pending)
	}
	w.pending = nil
	return nil
}
