package kvlayer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// A marked tree can be compared with its marks.
type marked interface {
	overlay.Reader
	overlay.Whiteouter
}

// dump returns the tree of r as text: names, modes, marks, content.
func dump(t *testing.T, r marked, dir overlay.Name) string {
	t.Helper()
	ctx := t.Context()
	var out strings.Builder
	marks, err := r.Marks(ctx, dir)
	do(t, "Marks", err)
	entries, err := r.ReadDir(ctx, dir)
	do(t, "ReadDir", err)
	fmt.Fprintf(&out, "%s gone %q\n", dir, marks)
	for _, e := range entries {
		name := dir.Join(e.Name)
		a, err := r.Lstat(ctx, name)
		do(t, "Lstat "+string(name), err)
		if a.Ino != e.Ino || a.Type() != e.Type {
			t.Errorf("Lstat(%q): got %+v, listed as %+v", name, a, e)
		}
		mark, err := r.Absence(ctx, name)
		do(t, "Absence", err)
		fmt.Fprintf(&out, "%s %o %d %d %d %v %+v", name, a.Mode, a.Nlink, a.Size, a.Ino, a.Mtime.UnixNano(), mark)
		switch a.Type() {
		case overlay.TypeReg:
			fmt.Fprintf(&out, " %x", sha256.Sum256([]byte(read(t, r, name))))
		case overlay.TypeLink:
			target, err := r.Readlink(ctx, name)
			do(t, "Readlink", err)
			out.WriteString(target)
		}
		out.WriteByte('\n')
		if a.IsDir() {
			out.WriteString(dump(t, r, name))
		}
	}
	return out.String()
}

// randomOp makes some change of l; that it may fail is part of the game. It
// returns the error of committing what it has written.
func randomOp(r *rand.Rand, l *Layer) error {
	ctx := context.Background()
	names := []overlay.Name{"a", "b", "ab", "d", "d/a", "d/b", "d/ab", "d/e", "d/e/a", "e", "e/a"}
	name := func() overlay.Name { return names[r.IntN(len(names))] }
	p := overlay.Perm{Mode: 0o755}
	switch n := name(); r.IntN(12) {
	case 0, 1:
		_ = l.Mkdir(ctx, n, p)
	case 2:
		_ = l.Symlink(ctx, "target", n, p)
	case 3, 4:
		_ = l.Remove(ctx, n)
	case 5:
		_ = l.Whiteout(ctx, n)
	case 6:
		_ = l.Rename(ctx, n, name(), overlay.RenameFlag(r.IntN(2))*overlay.LeaveWhiteout)
	case 7:
		_ = l.Rename(ctx, n, name(), overlay.Exchange)
	case 8:
		_ = l.Link(ctx, n, name())
	case 9:
		_, _ = l.SetAttr(ctx, n, overlay.SetAttr{Valid: overlay.SetMode, Mode: uint32(r.IntN(0o1000))})
	default:
		h, err := l.OpenFile(ctx, n, overlay.Create|overlay.OpenFlag(r.IntN(2))*overlay.Append, p)
		if err != nil {
			return nil
		}
		text := strings.Repeat(fmt.Sprint(r.IntN(100)), 1+r.IntN(9000))
		_, err = h.WriteAt([]byte(text), int64(r.IntN(3))*4000)
		if r.IntN(3) == 0 {
			_, sizeErr := h.SetAttr(ctx, overlay.SetAttr{Valid: overlay.SetSize, Size: int64(r.IntN(200_000))})
			err = errors.Join(err, sizeErr)
		}
		return errors.Join(err, h.Close())
	}
	return nil
}

// Every state that was is there again, and sweeping takes none that is kept.
func TestAsOfShowsEveryCommit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			c := newClock()
			l := open(t, memkv.New(), func(o *Options) {
				o.Now = c.now
				o.History = History{Commits: 40, Age: time.Second}
				o.Lease = time.Second
			})
			was := map[uint64]string{}
			note := func() uint64 {
				n, err := l.Commit(t.Context())
				do(t, "Commit", err)
				was[n] = dump(t, l, overlay.Root)
				return n
			}
			for range 200 {
				c.advance(time.Second)
				do(t, "operation", randomOp(r, l))
				note()
			}
			compare := func(kept func(n uint64) bool) {
				for n, want := range was {
					p, err := l.AsOf(t.Context(), n)
					if !kept(n) {
						if !errors.Is(err, ErrGone) {
							t.Errorf("AsOf(%d): got %v, want ErrGone", n, err)
						}
						continue
					}
					do(t, fmt.Sprintf("AsOf(%d)", n), err)
					if got := dump(t, p, overlay.Root); got != want {
						t.Fatalf("AsOf(%d): got\n%s\nwant\n%s", n, got, want)
					}
				}
			}
			compare(func(uint64) bool { return true })

			newest := note()
			pinned := []uint64{newest / 3, newest / 2}
			for i, n := range pinned {
				do(t, "Pin", l.Pin(t.Context(), fmt.Sprint(i), n))
			}
			c.advance(time.Minute)
			do(t, "Sweep", l.Sweep(t.Context()))
			floor := newest - 40
			kept := func(n uint64) bool { return n >= floor || slices.Contains(pinned, n) }
			compare(kept)
			do(t, "Pin of what is pinned", l.Pin(t.Context(), "again", pinned[1]))
			do(t, "Unpin", l.Unpin(t.Context(), "0"))
			do(t, "Unpin", l.Unpin(t.Context(), "1"))
			do(t, "Sweep", l.Sweep(t.Context()))
			pinned = pinned[1:]
			compare(kept)
			do(t, "Check", l.Check(t.Context()))
		})
	}
}

func TestLogTellsWhoAndWhat(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	a := open(t, store, func(o *Options) { o.Who, o.Session = "alice", "s1" })
	b := open(t, store, func(o *Options) { o.Who, o.Session = "bob", "s2" })
	ctx := t.Context()
	do(t, "Mkdir", a.Mkdir(ctx, "d", overlay.Perm{Mode: 0o755}))
	write(t, a, "d/m", "1")
	write(t, b, "d/m.tmp", "2")
	do(t, "Rename", b.Rename(ctx, "d/m.tmp", "d/m", 0))
	do(t, "Rename", b.Rename(ctx, "d", "e", 0))
	do(t, "Remove", a.Remove(ctx, "e/m"))
	log, err := a.Log(ctx, "e/m")
	do(t, "Log", err)
	var got []string
	for _, v := range log {
		got = append(got, fmt.Sprintf("%v %s %s %s %d", v.Op, v.Who, v.Session, v.Path, v.Size))
	}
	want := []string{"remove alice s1 e/m 0", "rename bob s2 d/m 1", "write alice s1 d/m 1", "create alice s1 d/m 0"}
	if !slices.Equal(got, want) {
		t.Errorf("Log: got %q, want %q", got, want)
	}
	p, err := a.AsOf(ctx, log[1].Commit)
	do(t, "AsOf", err)
	if got := read(t, p, "d/m"); got != "2" {
		t.Errorf("as of the rename: got %q, want 2", got)
	}
}

// What a living layer has open stays, whatever others do to it; a dead one's
// goes.
func TestOpenFilesKeepTheirContent(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	c := newClock()
	opt := func(o *Options) {
		o.Now = c.now
		o.History = History{Commits: 1, Age: time.Nanosecond}
		o.Lease = time.Hour
	}
	a, b := open(t, store, opt), open(t, store, opt)
	ctx := t.Context()
	big := strings.Repeat("0123456789", 20_000)
	write(t, a, "m", big)
	write(t, a, "n", "x"+big)
	h, err := b.Open(ctx, "m")
	do(t, "Open", err)
	own, err := b.Open(ctx, "n")
	do(t, "Open", err)
	do(t, "Remove", b.Remove(ctx, "n"))
	write(t, a, "m", "short")
	write(t, a, "other", "1")
	write(t, a, "other", "2")

	c.advance(2 * time.Hour)
	do(t, "Sweep of a layer that has not said that it lives", b.Sweep(ctx))
	do(t, "beat", b.beat(ctx))
	do(t, "Sweep", a.Sweep(ctx))
	if n := a.countKind(t, kindIndex); n == 0 {
		t.Errorf("chunks after Sweep while they are open: none")
	}
	b.chunks = chunkCache{}
	buf := make([]byte, len(big))
	if _, err := h.ReadAt(buf, 0); err != nil || string(buf) != big {
		t.Errorf("ReadAt of a replaced file: got %v", err)
	}
	if _, err := own.ReadAt(buf, 1); err != nil || string(buf) != big {
		t.Errorf("ReadAt of a removed file: got %v", err)
	}
	do(t, "Close", h.Close())
	do(t, "Close", own.Close())

	c.advance(2 * time.Hour)
	do(t, "Sweep", a.Sweep(ctx))
	if n := a.countKind(t, kindIndex) + a.countKind(t, kindChunk); n != 0 {
		t.Errorf("chunks after Sweep: got %d, want none", n)
	}
	if n := a.countKind(t, kindOwner); n != 0 {
		t.Errorf("owners after Sweep: got %d, want none", n)
	}
}

// A layer that was asleep for longer than its lease may find the version it
// has open gone. It must say so, and commit no file that refers to it.
func TestLeaseLapsed(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	c := newClock()
	opt := func(o *Options) {
		o.Now = c.now
		o.History = History{Commits: 1, Age: time.Nanosecond}
		o.Lease = time.Hour
	}
	a, b := open(t, store, opt), open(t, store, opt, policy(Sidecar))
	ctx := t.Context()
	write(t, a, "m", big)
	h := edit(t, b, "m", 0, "changed")
	write(t, a, "m", "short")
	write(t, a, "other", "1")
	c.advance(2 * time.Hour)
	do(t, "Sweep", a.Sweep(ctx))
	b.chunks = chunkCache{}
	wantErrno(t, "Flush", h.Flush(ctx), syscall.EIO)
	do(t, "Check", b.Check(ctx))
	wantErrno(t, "Close", h.Close(), syscall.EIO)
	if got := read(t, b, "m"); got != "short" {
		t.Errorf("read: got %d bytes, want the newer version", len(got))
	}
}
