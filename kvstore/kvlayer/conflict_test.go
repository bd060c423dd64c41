package kvlayer

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
	"github.com/wsfs/wsfs/kvstore/memkv"
	"github.com/wsfs/wsfs/overlay"
)

// two returns two layers on one store, as two daemons have them.
func two(t *testing.T, change ...func(*Options)) (a, b *Layer) {
	t.Helper()
	store := memkv.New()
	return open(t, store, change...), open(t, store, change...)
}

func policy(p ...Policy) func(*Options) { return func(o *Options) { o.Conflict = p } }

// edit opens name in l for change, so that a commit elsewhere conflicts.
func edit(t *testing.T, l *Layer, name overlay.Name, flag overlay.OpenFlag, text string) overlay.WriteHandle {
	t.Helper()
	h, err := l.OpenFile(t.Context(), name, flag, overlay.Perm{Mode: perm644})
	do(t, "OpenFile", err)
	_, err = h.WriteAt([]byte(text), 0)
	do(t, "WriteAt", err)
	return h
}

func TestAppendsAreReplayed(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	write(t, a, "m", "1\n")
	ha := edit(t, a, "m", overlay.Append, "a\n")
	hb := edit(t, b, "m", overlay.Append, "b\n")
	do(t, "Flush", hb.Flush(t.Context()))
	do(t, "Flush", ha.Flush(t.Context()))
	_, err := ha.WriteAt([]byte("a2\n"), 0)
	do(t, "WriteAt", err)
	if got := readHandleAll(t, ha); got != "1\nb\na\na2\n" {
		t.Errorf("through the handle: got %q", got)
	}
	do(t, "Close", ha.Close())
	do(t, "Close", hb.Close())
	if got := read(t, b, "m"); got != "1\nb\na\na2\n" {
		t.Errorf("read: got %q", got)
	}
}

// TestTwoDaemonsAppend is fault 29: 2x100 appends, 200 lines.
func TestTwoDaemonsAppend(t *testing.T) {
	t.Parallel()
	stores := map[string]func(t *testing.T) kvstore.Store{
		"memkv": func(*testing.T) kvstore.Store { return memkv.New() },
		"badgerkv": func(t *testing.T) kvstore.Store {
			s, err := badgerkv.Open(t.TempDir(), badgerkv.Options{NoSync: true})
			do(t, "badgerkv.Open", err)
			t.Cleanup(func() { do(t, "Close", s.Close()) })
			return s
		},
	}
	for name, newStore := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 100
			store := newStore(t)
			var wg sync.WaitGroup
			layers := []*Layer{open(t, store), open(t, store)}
			for i, l := range layers {
				wg.Go(func() {
					for n := range each {
						h := edit(t, l, "MEMORY.md", overlay.Create|overlay.Append, fmt.Sprintf("%d-%d\n", i, n))
						do(t, "Close", h.Close())
					}
				})
			}
			wg.Wait()
			got := strings.Split(strings.TrimSuffix(read(t, layers[0], "MEMORY.md"), "\n"), "\n")
			seen := map[string]bool{}
			for _, line := range got {
				seen[line] = true
			}
			if len(got) != 2*each || len(seen) != 2*each {
				t.Errorf("got %d lines, %d of them different, want %d", len(got), len(seen), 2*each)
			}
			if names := ls(t, layers[0], overlay.Root); names != "MEMORY.md" {
				t.Errorf("ReadDir: got %q, want MEMORY.md alone", names)
			}
		})
	}
}

func TestTextIsMerged(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	write(t, a, "m", "1\n2\n3\n4\n5\n")
	ha := edit(t, a, "m", overlay.Truncate, "one\n2\n3\n4\n5\n")
	write(t, b, "m", "1\n2\n3\n4\nfive\nsix\n")
	do(t, "Flush", ha.Flush(t.Context()))
	want := "one\n2\n3\n4\nfive\nsix\n"
	if got := readHandleAll(t, ha); got != want {
		t.Errorf("through the handle: got %q, want %q", got, want)
	}
	do(t, "Close", ha.Close())
	if got := read(t, b, "m"); got != want {
		t.Errorf("read: got %q, want %q", got, want)
	}
}

func TestWhatCannotBeMergedIsKeptBeside(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	write(t, a, "m", "1\n")
	ha := edit(t, a, "m", overlay.Truncate, "mine\n")
	write(t, b, "m", "theirs\n")
	do(t, "Flush", ha.Flush(t.Context()))
	if got := readHandleAll(t, ha); got != "theirs\n" {
		t.Errorf("through the handle: got %q, want theirs", got)
	}
	do(t, "Close", ha.Close())
	if got := read(t, a, "m"); got != "theirs\n" {
		t.Errorf("read: got %q, want theirs", got)
	}
	names := strings.Fields(ls(t, b, overlay.Root))
	if len(names) != 2 || !strings.HasPrefix(names[1], "m.conflict-here-") {
		t.Fatalf("ReadDir: got %q, want a sidecar", names)
	}
	if got := read(t, b, overlay.Name(names[1])); got != "mine\n" {
		t.Errorf("sidecar: got %q, want mine", got)
	}
}

func TestFailRefusesUntilClose(t *testing.T) {
	t.Parallel()
	a, b := two(t, policy(Fail))
	write(t, a, "m", "1\n")
	ha := edit(t, a, "m", overlay.Truncate, "mine\n")
	write(t, b, "m", "theirs\n")
	wantErrno(t, "Flush", ha.Flush(t.Context()), syscall.ESTALE)
	wantErrno(t, "Flush again", ha.Flush(t.Context()), syscall.ESTALE)
	do(t, "Close", ha.Close())
	names := strings.Fields(ls(t, b, overlay.Root))
	if len(names) != 2 || read(t, b, overlay.Name(names[1])) != "mine\n" || read(t, b, "m") != "theirs\n" {
		t.Errorf("ReadDir after Close: got %q, want m and a sidecar", names)
	}
}

// The other editor saves by renaming, as most do: the file that was opened is
// gone, and its name is another file's.
func TestSaveByRenameElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(t *testing.T, l *Layer) overlay.WriteHandle
		want string
	}{
		{"append", func(t *testing.T, l *Layer) overlay.WriteHandle {
			return edit(t, l, "m", overlay.Append, "mine\n")
		}, "1\n2\ntheirs\nmine\n"},
		{"merge", func(t *testing.T, l *Layer) overlay.WriteHandle {
			return edit(t, l, "m", 0, "0")
		}, "0\n2\ntheirs\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := two(t)
			write(t, a, "m", "1\n2\n")
			h := c.edit(t, a)
			write(t, b, "m.tmp", "1\n2\ntheirs\n")
			do(t, "Rename", b.Rename(t.Context(), "m.tmp", "m", 0))
			do(t, "Flush", h.Flush(t.Context()))
			if got := read(t, b, "m"); got != c.want {
				t.Errorf("read: got %q, want %q", got, c.want)
			}
			if c.name == "append" {
				_, err := h.WriteAt([]byte("more\n"), 0)
				do(t, "WriteAt", err)
			}
			do(t, "Close", h.Close())
			if got := read(t, a, "m"); c.name == "append" && got != c.want+"more\n" {
				t.Errorf("read after Close: got %q, want %q", got, c.want+"more\n")
			}
		})
	}
}

func TestRemovedElsewhereIsKeptBeside(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	do(t, "Mkdir", a.Mkdir(t.Context(), "d", overlay.Perm{Mode: 0o755}))
	write(t, a, "d/m", "1\n")
	h := edit(t, a, "d/m", overlay.Append, "mine\n")
	do(t, "Remove", b.Remove(t.Context(), "d/m"))
	do(t, "Remove", b.Remove(t.Context(), "d"))
	do(t, "Flush", h.Flush(t.Context()))
	do(t, "Close", h.Close())
	names := ls(t, b, overlay.Root)
	if !strings.HasPrefix(names, "m.conflict-") || read(t, b, overlay.Name(names)) != "1\nmine\n" {
		t.Errorf("ReadDir: got %q, want a sidecar with both lines", names)
	}
}

func TestOpenSeesTheNewestVersion(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	write(t, a, "m", "1")
	old, err := b.Open(t.Context(), "m")
	do(t, "Open", err)
	before, err := old.Stat(t.Context())
	do(t, "Stat", err)
	write(t, a, "m", "22")
	if got := read(t, b, "m"); got != "22" {
		t.Errorf("read: got %q, want 22", got)
	}
	after, err := b.Lstat(t.Context(), "m")
	do(t, "Lstat", err)
	if after.Version <= before.Version || after.Size != 2 {
		t.Errorf("Lstat: version %d after %d, size %d", after.Version, before.Version, after.Size)
	}
	do(t, "Close", old.Close())
	do(t, "Remove", a.Remove(t.Context(), "m"))
	write(t, a, "m", "3")
	again, err := b.Lstat(t.Context(), "m")
	do(t, "Lstat", err)
	if again.Version <= after.Version {
		t.Errorf("version over removal: %d after %d", again.Version, after.Version)
	}
}

// Handles of one layer share the file: no conflict, one commit.
func TestHandlesShareTheFile(t *testing.T) {
	t.Parallel()
	l := open(t, memkv.New())
	write(t, l, "m", "1\n")
	h1 := edit(t, l, "m", overlay.Append, "2\n")
	h2 := edit(t, l, "m", overlay.Append, "3\n")
	if got := readHandleAll(t, h1); got != "1\n2\n3\n" {
		t.Errorf("read: got %q", got)
	}
	do(t, "Close", h1.Close())
	do(t, "Close", h2.Close())
	log, err := l.Log(t.Context(), "m")
	do(t, "Log", err)
	if len(log) != 3 { // made, written, appended
		t.Errorf("Log: got %d versions, want 3: %+v", len(log), log)
	}
}

func TestMerge3(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, base, mine, theirs, want string
		ok                             bool
	}{
		{"nothing", "a\n", "a\n", "a\n", "a\n", true},
		{"mine", "a\nb\n", "a\nB\n", "a\nb\n", "a\nB\n", true},
		{"theirs", "a\nb\n", "a\nb\n", "A\nb\n", "A\nb\n", true},
		{"both, apart", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", true},
		{"both alike", "a\nb\n", "a\nx\n", "a\nx\n", "a\nx\n", true},
		{"both, same line", "a\nb\nc\n", "a\nx\nc\n", "a\ny\nc\n", "", false},
		{"both at the end", "a\n", "a\nx\n", "a\ny\n", "", false},
		{"insert and delete", "a\nb\nc\nd\n", "a\nb\nn\nc\nd\n", "b\nc\nd\n", "b\nn\nc\nd\n", true},
		{"no newline", "a\nb", "a\nb", "A\nb", "A\nb", true},
		{"from nothing", "", "x\n", "", "x\n", true},
		{"repeated lines", "x\nx\nx\n", "x\nx\nx\nx\n", "x\nx\nx\n", "x\nx\nx\nx\n", true},
		{"binary", "a\x00", "b\x00", "a\x00", "", false},
	} {
		got, ok := merge3([]byte(c.base), []byte(c.mine), []byte(c.theirs))
		if ok != c.ok || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
