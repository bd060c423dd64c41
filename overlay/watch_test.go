package overlay_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/overlay"
	"github.com/wsfs/wsfs/overlay/memlayer"
	"github.com/wsfs/wsfs/router"
)

// expect waits until the watch tells of child, or of anything that may be it.
func expect(t *testing.T, told <-chan string, child string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case got := <-told:
			if got == child || got == "" {
				return
			}
		case <-deadline:
			t.Fatalf("the watch does not tell of %q", child)
		}
	}
}

// TestHostDirectoryAppears makes directories in a project that is mounted: the
// tree has to show them, merged with what others hold there, and the watch has
// to tell of them.
func TestHostDirectoryAppears(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	project := memlayer.New(memlayer.Options{Source: overlay.Host})
	template := memlayer.New(memlayer.Options{Source: overlay.Host})
	mkdir(t, template, "d", "d/e")
	write(t, template, "d/e/t", "template")
	upper := memlayer.New(memlayer.Options{})
	o := overlay.New(upper, project, template)
	told := make(chan string, 100)
	stop, err := o.Watch(ctx, "d/e", func(child string) { told <- child })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	write(t, o, "d/e/u", "upper")
	wantList(t, o, "d/e", "t", "u")

	mkdir(t, project, "d", "d/e")
	expect(t, told, "")
	write(t, project, "d/e/t", "project")
	write(t, project, "d/e/p", "project")
	wantList(t, o, "d/e", "p", "t", "u")
	if got := read(t, o, "d/e/t"); got != "project" {
		t.Errorf("d/e/t holds %q, want project", got)
	}

	write(t, template, "d/e/t2", "template")
	expect(t, told, "t2")
	stop()
	stop()
}

// A counted layer counts its lookups.
type counted struct {
	*memlayer.Layer
	lstats atomic.Int64
}

func (c *counted) Lstat(ctx context.Context, name overlay.Name) (overlay.Attr, error) {
	c.lstats.Add(1)
	return c.Layer.Lstat(ctx, name)
}

// TestWatchedAbsence checks that a project is not asked again and again for a
// directory that it lacks, while it is watched for it, and is when it is not.
func TestWatchedAbsence(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	project := &counted{Layer: memlayer.New(memlayer.Options{Source: overlay.Host})}
	template := memlayer.New(memlayer.Options{Source: overlay.Host})
	mkdir(t, template, "d")
	write(t, template, "d/t", "template")
	o := overlay.New(memlayer.New(memlayer.Options{}), project, template)
	asked := func() int64 {
		t.Helper()
		before := project.lstats.Load()
		for range 10 {
			if _, err := o.Lstat(ctx, "d/t"); err != nil {
				t.Fatal(err)
			}
		}
		return project.lstats.Load() - before
	}
	if n := asked(); n == 0 {
		t.Errorf("without a watch the project was not asked for d")
	}
	told := make(chan string, 100)
	watch := func() (stop func()) {
		t.Helper()
		stop, err := o.Watch(ctx, "d", func(child string) { told <- child })
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	watch()()
	if n := asked(); n == 0 {
		t.Errorf("after a watch the project was not asked for d")
	}
	defer watch()()
	if n := asked(); n != 0 {
		t.Errorf("under watch the project was asked %d times for d", n)
	}
	mkdir(t, project, "d")
	write(t, project, "d/p", "project")
	expect(t, told, "")
	wantList(t, o, "d", "p", "t")
}

// TestHostDirectoryBecomesFile has the host put a file where a directory was.
func TestHostDirectoryBecomesFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	project := memlayer.New(memlayer.Options{Source: overlay.Host})
	template := memlayer.New(memlayer.Options{Source: overlay.Host})
	mkdir(t, project, "d")
	mkdir(t, template, "d")
	write(t, project, "d/p", "p")
	write(t, template, "d/t", "t")
	o := overlay.New(memlayer.New(memlayer.Options{}), project, template)
	wantList(t, o, "d", "p", "t")
	remove("d/p", "d")(t, project)
	wantList(t, o, "d", "t")
	write(t, project, "d", "a file now")
	_, err := o.Lstat(ctx, "d/t")
	want(t, "Lstat below the file", err, syscall.ENOTDIR)
	if got := read(t, o, "d"); got != "a file now" {
		t.Errorf("d holds %q", got)
	}
}

// TestWatchStore has another daemon write to files of a store.
func TestWatchStore(t *testing.T) {
	t.Parallel()
	m, layers := newMux(t, router.Rules{Agent: "a"})
	o := overlay.New(m)
	told := make(chan string, 100)
	for _, dir := range []overlay.Name{overlay.Root, "memory"} {
		stop, err := o.Watch(t.Context(), dir, func(child string) { told <- child })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	write(t, layers["root"], "MEMORY.md", "x")
	expect(t, told, "MEMORY.md")
	write(t, layers["memory"], "note", "x")
	expect(t, told, "note")
}

// A deaf layer cannot be watched.
type deaf struct{ overlay.Reader }

func (deaf) Watch(context.Context, overlay.Name, func(string)) (func(), error) {
	return nil, overlay.PathError("watch", overlay.Root, syscall.ENOSPC)
}

// TestWatchFails checks that a directory which cannot be watched in all layers
// is not watched in any.
func TestWatchFails(t *testing.T) {
	t.Parallel()
	project := memlayer.New(memlayer.Options{Source: overlay.Host})
	other := deaf{memlayer.New(memlayer.Options{Source: overlay.Host})}
	o := overlay.New(nil, project, other)
	told := make(chan string, 100)
	if _, err := o.Watch(t.Context(), overlay.Root, func(child string) { told <- child }); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Watch: got %v, want ENOSPC", err)
	}
	write(t, project, "f", "")
	stop, err := overlay.New(nil, project).Watch(t.Context(), overlay.Root, func(child string) { told <- "second " + child })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	write(t, project, "g", "")
	if got := <-told; got != "second g" {
		t.Errorf("a watch that failed tells of %q", got)
	}
}

// TestReadOnly checks that nothing can be changed without an upper.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	project := memlayer.New(memlayer.Options{})
	mkdir(t, project, "d")
	write(t, project, "f", "f")
	o := overlay.New(nil, project)
	_, err := o.OpenFile(ctx, "f", 0, overlay.Perm{})
	want(t, "OpenFile", err, syscall.EROFS)
	_, err = o.OpenFile(ctx, "n", overlay.Create, overlay.Perm{})
	want(t, "OpenFile with Create", err, syscall.EROFS)
	_, err = o.SetAttr(ctx, "f", overlay.SetAttr{Valid: overlay.SetMode})
	want(t, "SetAttr", err, syscall.EROFS)
	_, err = o.Tmpfile(ctx, "d", overlay.Perm{})
	want(t, "Tmpfile", err, syscall.EROFS)
	want(t, "Mkdir", o.Mkdir(ctx, "n", overlay.Perm{}), syscall.EROFS)
	want(t, "Symlink", o.Symlink(ctx, "x", "n", overlay.Perm{}), syscall.EROFS)
	want(t, "Mknod", o.Mknod(ctx, "n", overlay.TypeFIFO, 0, overlay.Perm{}), syscall.EROFS)
	want(t, "Link", o.Link(ctx, "f", "n"), syscall.EROFS)
	want(t, "Remove", o.Remove(ctx, "f"), syscall.EROFS)
	want(t, "Rename", o.Rename(ctx, "f", "n", 0), syscall.EROFS)
	want(t, "Setxattr", o.Setxattr(ctx, "f", "user.x", nil, 0), syscall.EROFS)
	wantList(t, o, overlay.Root, "d", "f")
}
