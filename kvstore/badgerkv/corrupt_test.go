package badgerkv_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// image returns a directory with what a store leaves when its process is
// killed: tables, a log, and files that are still open. It holds items items.
func image(t *testing.T) (dir string, items int) {
	t.Helper()
	live := memoryDir(t)
	s := open(t, live)
	for n := range 40 {
		if err := putOne(t, s, kvstore.Key(fmt.Sprintf("long/%d", n)), make([]byte, 1<<20)); err != nil {
			t.Fatalf("Apply: got %v, want nil", err)
		}
	}
	for n := range 100 {
		if err := putOne(t, s, kvstore.Key(fmt.Sprintf("short/%d", n)), []byte("value")); err != nil {
			t.Fatalf("Apply: got %v, want nil", err)
		}
	}
	quiet(t, live)
	dir = memoryDir(t)
	copyFiles(t, live+"/.", dir)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: got %v, want nil", err)
	}
	return dir, 140
}

// memoryDir returns a directory for the test, in memory where there is one: a
// test of damages opens many stores, and what a disk does is not its subject.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "badgerkv-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// quiet returns when the store in dir writes nothing in the background: it then
// has one log, and at most an empty one after that. Badger empties a log before
// it removes it.
func quiet(t *testing.T, dir string) {
	t.Helper()
	for {
		logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
		if err != nil {
			t.Fatal(err)
		}
		sizes := make([]int64, len(logs))
		for i, log := range logs {
			if info, err := os.Stat(log); err == nil {
				sizes[i] = info.Size()
			}
		}
		if sizes[0] > 0 && (len(sizes) == 1 || len(sizes) == 2 && sizes[1] == 0) {
			return
		}
	}
}

func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	if out, err := osexec.Command("cp", "-a", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// linkTables copies the files of a store, but links the tables except one: what
// only reads does not change them, and they are long.
func linkTables(t *testing.T, from, to, except string) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, target := filepath.Join(from, f.Name()), filepath.Join(to, f.Name())
		if filepath.Ext(f.Name()) == ".sst" && f.Name() != except {
			if err := os.Link(source, target); err != nil {
				t.Fatal(err)
			}
			continue
		}
		copyFiles(t, source, target)
	}
}

// A damage is something that happens to a file.
type damage struct {
	name   string
	do     func(path string, size int64) error
	random bool // of interest only in files with much in them
}

// tailOrTable reports whether a file of a store has much in it.
func tailOrTable(name string) bool {
	return slices.Contains([]string{".mem", ".sst"}, filepath.Ext(name))
}

func flip(at func(size int64) int64) func(string, int64) error {
	return func(path string, size int64) error {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		b := make([]byte, 1)
		if _, err := file.ReadAt(b, at(size)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		b[0] ^= 0x41
		_, err = file.WriteAt(b, at(size))
		return err
	}
}

func cutOff(to func(size int64) int64) func(string, int64) error {
	return func(path string, size int64) error { return os.Truncate(path, to(size)) }
}

// damages are tried on every file of a store.
func damages() []damage {
	all := []damage{
		{"removed", func(path string, _ int64) error { return os.Remove(path) }, false},
		{"emptied", cutOff(func(int64) int64 { return 0 }), false},
		{"cut to 3", cutOff(func(int64) int64 { return 3 }), false},
		{"cut to 25", cutOff(func(int64) int64 { return 25 }), false},
		{"cut in half", cutOff(func(size int64) int64 { return size / 2 }), false},
		{"cut by 1", cutOff(func(size int64) int64 { return size - 1 }), false},
		{"cut by 10", cutOff(func(size int64) int64 { return max(0, size-10) }), false},
		{"first bit", flip(func(int64) int64 { return 0 }), false},
		{"bit 21", flip(func(int64) int64 { return 21 }), false},
		{"last bit", flip(func(size int64) int64 { return size - 1 }), false},
		{"near the end", flip(func(size int64) int64 { return max(0, size-30) }), false},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2 {
		f := r.Float64()
		all = append(all, damage{fmt.Sprintf("bit at %.2f", f), flip(func(size int64) int64 { return int64(f * float64(size)) }), true})
		g := r.Float64() * 0.1
		all = append(all, damage{fmt.Sprintf("bit at %.3f", g), flip(func(size int64) int64 { return int64(g * float64(size)) }), true})
	}
	return all
}

// TestDamaged damages each file of a store in many ways. The store then opens
// with all it had, or it is refused with an error that names a file; no
// process dies of it, and nothing is missing silently, except behind the end of
// a log that was cut off.
func TestDamaged(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("opens a store some 100 times")
	}
	dir, items := image(t)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	scratch := memoryDir(t)
	opened, refused := 0, 0
	for _, f := range files {
		for _, d := range damages() {
			if err := os.RemoveAll(scratch); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(scratch, 0o700); err != nil {
				t.Fatal(err)
			}
			linkTables(t, dir, scratch, f.Name())
			path := filepath.Join(scratch, f.Name())
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() == 0 && d.name != "removed" {
				continue
			}
			if d.random && !tailOrTable(f.Name()) {
				continue
			}
			if err := d.do(path, info.Size()); err != nil {
				t.Fatal(err)
			}
			tail := strings.HasSuffix(f.Name(), ".mem")
			if readDamaged(t, scratch, f.Name()+" "+d.name, items, tail) {
				opened++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d damages: %d stores opened whole, %d were refused", opened+refused, opened, refused)
}

// readDamaged has another process read the store in dir, and reports whether it
// could.
func readDamaged(t *testing.T, dir, what string, items int, tail bool) bool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"=read:"+dir)
	out, err := cmd.CombinedOutput()
	var got int
	_, scanErr := fmt.Sscanf(string(out), "items: %d\n", &got)
	switch exit, failed := errors.AsType[*osexec.ExitError](err); {
	case err == nil && scanErr == nil && (got == items || tail && got < items):
		return true
	case failed && exit.ExitCode() == 1 && strings.HasPrefix(string(out), "error: kvstore: store is damaged: "+dir):
		return false
	default:
		t.Errorf("%s: got %v, %.500s; want %d items or ErrCorrupt", what, err, out, items)
		return false
	}
}

// TestDamagedIsKept has a damaged store refused twice, mended, and whole again:
// refusing changes nothing.
func TestDamagedIsKept(t *testing.T) {
	t.Parallel()
	dir, items := image(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables of the image: %v, %v", tables, err)
	}
	info, err := os.Stat(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	bit := flip(func(size int64) int64 { return size / 3 })
	if err := bit(tables[0], info.Size()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := badgerkv.Open(dir, options()); !errors.Is(err, kvstore.ErrCorrupt) || !strings.Contains(err.Error(), tables[0]) {
			t.Fatalf("Open with a flipped bit in %s: got %v, want ErrCorrupt that names it", tables[0], err)
		}
	}
	if err := bit(tables[0], info.Size()); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	defer s.Close()
	n := 0
	if err := s.Scan(t.Context(), "", func(kvstore.Item) error { n++; return nil }); err != nil || n != items {
		t.Errorf("Scan of the mended store: got %d items, %v, want %d", n, err, items)
	}
}
