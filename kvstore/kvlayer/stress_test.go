package kvlayer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// Three layers change one tree at once, while it is swept: nothing is broken.
// The clock runs so fast that leases end while files are open, so a commit may
// fail; it must not refer to what is gone.
func TestLayersAtOnce(t *testing.T) {
	t.Parallel()
	store := memkv.New()
	clock := newClock()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range uint64(3) {
		l := open(t, store, func(o *Options) {
			o.Now = func() time.Time { clock.advance(time.Minute); return clock.now() }
			o.History = History{Commits: 5, Age: time.Second}
		})
		for j := range uint64(2) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(i, j))
				for range 100 {
					if err := randomOp(r, l); err != nil {
						t.Logf("operation: %v", err)
					}
				}
			})
		}
		if i == 0 {
			defer func() {
				do(t, "Check", l.Check(context.Background()))
				_ = dump(t, l, overlay.Root)
			}()
		}
	}
	sweeper := open(t, store, func(o *Options) { o.Now, o.History = clock.now, History{Commits: 5, Age: time.Second} })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if err := sweeper.Sweep(context.Background()); err != nil {
					t.Errorf("Sweep: %v", err)
				}
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-done
}

// Random reads and writes of a file are those of a byte slice, however often
// it is committed, spilled, or opened anew.
func TestRandomIO(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			l := open(t, memkv.New(), func(o *Options) { o.Memory = 200_000 })
			h, err := l.OpenFile(t.Context(), "f", overlay.Create, overlay.Perm{Mode: perm644})
			do(t, "OpenFile", err)
			var want []byte
			for i := range 300 {
				what := randomIO(t, r, l, &h, &want)
				if r.IntN(4) > 0 {
					continue
				}
				if got := readHandleAll(t, h); got != string(want) {
					t.Fatalf("after step %d, %s: got %d bytes, want %d; first difference at %d",
						i, what, len(got), len(want), firstDifference([]byte(got), want))
				}
			}
			do(t, "Close", h.Close())
			if got := read(t, l, "f"); got != string(want) {
				t.Errorf("after Close: got %d bytes, want %d", len(got), len(want))
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// randomIO makes one change to the file open as *h and to *want.
func randomIO(t *testing.T, r *rand.Rand, l *Layer, h *overlay.WriteHandle, want *[]byte) string {
	t.Helper()
	// Sizes around those where content is cut differently.
	sizes := []int{0, 1, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_000, 4 << 20, 4<<20 + 1, 5 << 20}
	at := r.IntN(sizes[r.IntN(len(sizes))] + 2)
	ctx := t.Context()
	switch r.IntN(8) {
	case 0:
		_, err := (*h).SetAttr(ctx, overlay.SetAttr{Valid: overlay.SetSize, Size: int64(at)})
		do(t, "SetAttr", err)
		*want = resize(*want, at)
		return fmt.Sprintf("truncate to %d", at)
	case 1:
		n := 1 + r.IntN(300_000)
		do(t, "Allocate", (*h).(overlay.Allocator).Allocate(ctx, int64(at), int64(n), fallocPunchHole|fallocKeepSize))
		if at < len(*want) {
			clear((*want)[at:min(at+n, len(*want))])
		}
		return fmt.Sprintf("punch %d at %d", n, at)
	case 2:
		do(t, "Flush", (*h).Flush(ctx))
		return "flush"
	case 3:
		do(t, "Close", (*h).Close())
		var err error
		*h, err = l.OpenFile(ctx, "f", 0, overlay.Perm{})
		do(t, "OpenFile", err)
		return "reopen"
	}
	p := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(150_000))
	_, err := (*h).WriteAt(p, int64(at))
	do(t, "WriteAt", err)
	if end := at + len(p); end > len(*want) {
		*want = resize(*want, end)
	}
	copy((*want)[at:], p)
	return fmt.Sprintf("write %d at %d", len(p), at)
}

func resize(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n:n]
	}
	return append(b, make([]byte, n-len(b))...)
}

const killedDir = "WSFS_TEST_KILLED_DIR"

// TestKilledWriter is the child of TestKill: it appends lines and says so
// after each Flush, until it is killed.
func TestKilledWriter(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // not a test of its own; TestKill runs it
	}
	store, err := badgerkv.Open(dir, badgerkv.Options{})
	do(t, "badgerkv.Open", err)
	l, err := New(t.Context(), store, "ns", Options{Segment: "memory"})
	do(t, "New", err)
	for n := 0; ; n++ {
		h := edit(t, l, "MEMORY.md", overlay.Create|overlay.Append, fmt.Sprintf("%d\n", n))
		do(t, "Flush", h.Flush(t.Context()))
		fmt.Printf("line %d\n", n)
		do(t, "Close", h.Close())
		write(t, l, "big", big[n%100:])
		fmt.Printf("big %d\n", n)
	}
}

// Nothing whose Flush returned is lost when the process is killed, and what is
// left is whole.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := 0 // in the file, at least
	for round := range 4 {
		last := killWriter(t, dir, 5+7*round)
		store, err := badgerkv.Open(dir, badgerkv.Options{})
		do(t, "badgerkv.Open", err)
		l, err := New(t.Context(), store, "ns", Options{Segment: "memory"})
		do(t, "New", err)
		do(t, "Check", l.Check(t.Context()))
		got := strings.Count(read(t, l, "MEMORY.md"), "\n")
		if lines += last; got < lines {
			t.Errorf("round %d: %d lines, %d were acknowledged", round, got, lines)
		}
		lines = got
		if text := read(t, l, "big"); len(text) != 0 && !strings.HasSuffix(big, text) {
			t.Errorf("round %d: big has %d bytes that were never written", round, len(text))
		}
		do(t, "Sweep", l.Sweep(t.Context()))
		do(t, "Close", l.Close())
		do(t, "Close", store.Close())
	}
}

// killWriter runs the writer until it has said so much, kills it, and returns
// how many lines it acknowledged.
func killWriter(t *testing.T, dir string, says int) (lines int) {
	t.Helper()
	cmd := osexec.Command(os.Args[0], "-test.run=^TestKilledWriter$", "-test.v")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	do(t, "StdoutPipe", err)
	do(t, "Start", cmd.Start())
	in := bufio.NewScanner(out)
	for in.Scan() {
		if says--; says == 0 {
			do(t, "Kill", cmd.Process.Kill())
		}
		if strings.HasPrefix(in.Text(), "line ") {
			lines++
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading the writer's output: %v", err)
	}
	_ = cmd.Wait() // it was killed
	return lines
}
