package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
)

// A gate is a lower whose files are read only while it is open.
type gate struct {
	overlay.Reader
	entered chan struct{} // closed when the first read waits
	once    *sync.Once
	open    chan struct{} // closed to let reads through
}

func newGate(r overlay.Reader) gate {
	return gate{r, make(chan struct{}), &sync.Once{}, make(chan struct{})}
}

func (g gate) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	h, err := g.Reader.Open(ctx, name)
	return gatedHandle{h, g}, err
}

type gatedHandle struct {
	overlay.Handle
	g gate
}

func (h gatedHandle) ReadAt(p []byte, off int64) (int, error) {
	h.g.once.Do(func() { close(h.g.entered) })
	<-h.g.open
	return h.Handle.ReadAt(p, off)
}

// TestCopyUpStallsNothing copies a file up that takes for ever, and meanwhile
// changes everything around it.
func TestCopyUpStallsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		while func(t *testing.T, o *overlay.Overlay)
		want  syscall.Errno // of the copy-up in the end
		check func(t *testing.T, o *overlay.Overlay)
	}{
		{"neighbours", func(t *testing.T, o *overlay.Overlay) {
			write(t, o, "d/new", "")
			remove("d/g")(t, o)
			mkdir(t, o, "e")
		}, 0, func(t *testing.T, o *overlay.Overlay) { wantList(t, o, "d", "f", "new") }},
		{"removed", func(t *testing.T, o *overlay.Overlay) { remove("d/f")(t, o) }, syscall.ENOENT,
			func(t *testing.T, o *overlay.Overlay) { wantList(t, o, "d", "g") }},
		{"replaced", func(t *testing.T, o *overlay.Overlay) {
			write(t, o, "n", "new")
			if err := o.Rename(t.Context(), "n", "d/f", 0); err != nil {
				t.Fatal(err)
			}
		}, 0, func(t *testing.T, o *overlay.Overlay) {
			if got := read(t, o, "d/f"); got != "new" {
				t.Errorf("d/f holds %q, want new", got)
			}
		}},
		{"directory moved", func(t *testing.T, o *overlay.Overlay) {
			if err := o.Rename(t.Context(), "d", "e", 0); err != nil {
				t.Fatal(err)
			}
			mkdir(t, o, "d")
		}, syscall.ENOENT, func(t *testing.T, o *overlay.Overlay) {
			wantList(t, o, "d")
			wantList(t, o, "e", "f", "g")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			project := memlayer.New(memlayer.Options{})
			mkdir(t, project, "d")
			write(t, project, "d/f", "old")
			write(t, project, "d/g", "g")
			g := newGate(project)
			o := overlay.New(memlayer.New(memlayer.Options{}), g)
			done := make(chan error, 1)
			go func() { done <- o.CopyUp(t.Context(), "d/f") }()
			<-g.entered
			c.while(t, o)
			close(g.open)
			err := <-done
			if got, _ := errors.AsType[syscall.Errno](err); got != c.want {
				t.Errorf("CopyUp: got %v, want %v", err, c.want)
			}
			c.check(t, o)
			if err := overlay.Check(t.Context(), o); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// TestCopyUpOnce has many callers copy one file up.
func TestCopyUpOnce(t *testing.T) {
	t.Parallel()
	project := memlayer.New(memlayer.Options{})
	mkdir(t, project, "a", "a/b")
	write(t, project, "a/b/f", "content")
	o := overlay.New(memlayer.New(memlayer.Options{}), project)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := o.CopyUp(t.Context(), "a/b/f"); err != nil {
				t.Errorf("CopyUp: %v", err)
			}
		})
	}
	wg.Wait()
	if got := read(t, o, "a/b/f"); got != "content" {
		t.Errorf("the copy holds %q", got)
	}
}

// A growing layer has files that grow whenever they are read.
type growing struct{ *memlayer.Layer }

func (g growing) Open(ctx context.Context, name overlay.Name) (overlay.Handle, error) {
	h, err := g.Layer.OpenFile(ctx, name, overlay.Append, overlay.Perm{})
	return growingHandle{h}, err
}

type growingHandle struct{ overlay.WriteHandle }

func (h growingHandle) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.WriteHandle.ReadAt(p, off)
	if off == 0 {
		h.WriteAt([]byte("more"), 0)
	}
	return n, err
}

// TestCopyUpOfGrowingFile checks that a file which the host writes to all the
// time can be copied up.
func TestCopyUpOfGrowingFile(t *testing.T) {
	t.Parallel()
	project := growing{memlayer.New(memlayer.Options{Source: overlay.Host})}
	write(t, project, "log", "first")
	o := overlay.New(memlayer.New(memlayer.Options{}), project)
	if err := o.CopyUp(t.Context(), "log"); err != nil {
		t.Fatalf("CopyUp: %v", err)
	}
	if got := read(t, o, "log"); got[:5] != "first" {
		t.Errorf("the copy begins with %q, want first", got[:5])
	}
}

// TestReadersSeeOneMoment reads names while others remove them, make them anew
// and move their directories: what was deleted never shows again.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	project := memlayer.New(memlayer.Options{})
	mkdir(t, project, "d", "m")
	write(t, project, "d/f", "lower")
	write(t, project, "m/x", "lower")
	o := overlay.New(memlayer.New(memlayer.Options{}), project)
	remove("d/f", "m/x")(t, o)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				lookForDeleted(t, o)
			}
		})
	}
	for i := range 300 {
		write(t, o, "d/f", "upper")
		remove("d/f")(t, o)
		from, to := overlay.Name("m"), overlay.Name("n")
		if i%2 == 1 {
			from, to = to, from
		}
		if err := o.Rename(t.Context(), from, to, 0); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
}

// lookForDeleted fails the test if it finds what the project has.
func lookForDeleted(t *testing.T, o *overlay.Overlay) {
	for _, name := range []overlay.Name{"m/x", "n/x"} {
		if _, err := o.Lstat(t.Context(), name); err == nil {
			t.Errorf("%q was deleted and shows again", name)
		}
	}
	if a, err := o.Lstat(t.Context(), "d/f"); err == nil && a.Origin != 0 {
		t.Errorf("d/f is the deleted lower file")
	}
	h, err := o.Open(t.Context(), "d/f")
	if err != nil {
		return
	}
	defer h.Close()
	p := make([]byte, 5)
	if n, _ := h.ReadAt(p, 0); string(p[:n]) == "lower" {
		t.Errorf("d/f holds what was deleted")
	}
}

// TestParallelChanges has several goroutines do everything at once.
func TestParallelChanges(t *testing.T) {
	t.Parallel()
	project := memlayer.New(memlayer.Options{})
	for i := range 4 {
		dir := overlay.Name(fmt.Sprintf("d%d", i))
		mkdir(t, project, dir, dir.Join("sub"))
		write(t, project, dir.Join("sub").Join("f"), "lower")
	}
	o := overlay.New(memlayer.New(memlayer.Options{}), project)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			own := overlay.Name(fmt.Sprintf("d%d", i))
			for n := range 40 {
				moved := overlay.Name(fmt.Sprintf("m%d-%d", i, n))
				if err := errors.Join(
					o.Rename(t.Context(), own.Join("sub"), moved, 0),
					o.Rename(t.Context(), moved.Join("f"), own.Join("f"), 0),
					o.Rename(t.Context(), own.Join("f"), moved.Join("f"), 0),
					o.Rename(t.Context(), moved, own.Join("sub"), 0),
				); err != nil {
					t.Errorf("worker %d, round %d: %v", i, n, err)
					return
				}
				write(t, o, overlay.Name(fmt.Sprintf("w%d", i)), "x")
				remove(overlay.Name(fmt.Sprintf("w%d", i)))(t, o)
			}
		})
	}
	wg.Wait()
	wantList(t, o, ".", "d0", "d1", "d2", "d3")
	for i := range 4 {
		if got := read(t, o, overlay.Name(fmt.Sprintf("d%d/sub/f", i))); got != "lower" {
			t.Errorf("d%d/sub/f holds %q", i, got)
		}
	}
	if err := overlay.Check(t.Context(), o); err != nil {
		t.Errorf("Check: %v", err)
	}
}
