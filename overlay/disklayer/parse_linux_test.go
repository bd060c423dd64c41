package disklayer

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a mark file of any content leads to is an error or a state that it
// writes and reads again.
func FuzzMarkFile(f *testing.F) {
	f.Add("set 7 wsfs.origin 0102\ngone 8 61\ngone 8 62\nback 8 61\nforget 7\nset 9 redirect 2f61\ndel 9 redirect\n")
	f.Add("set 7 opaque 79\nset 7 opaque 79\ngone 1 ff\ncut short")
	f.Add("gone x 61\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "marks")
		must(t, "WriteFile", os.WriteFile(path, []byte(text), 0o600))
		m, err := openMarkFile(path)
		if err != nil {
			return
		}
		must(t, "setGone", m.setGone(1<<63, "x\n", true)) // writes the log anew
		again, err := openMarkFile(path)
		must(t, "openMarkFile of what was written", err)
		if !reflect.DeepEqual(m.marks, again.marks) || !reflect.DeepEqual(m.gone, again.gone) || m.count.Load() != again.count.Load() {
			t.Errorf("wrote %v %v, read %v %v", m.marks, m.gone, again.marks, again.gone)
		}
		n := 0
		for _, marks := range again.marks {
			n += len(marks)
		}
		for _, names := range again.gone {
			n += len(names)
		}
		if int64(n) != again.count.Load() {
			t.Errorf("counts %d entries, holds %d", again.count.Load(), n)
		}
		must(t, "close", m.close())
	})
}

// A line that a crash cut short does not count, and is not in the way of those
// that follow.
func TestMarkFileCutShort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marks")
	must(t, "WriteFile", os.WriteFile(path, []byte("gone 1 61\ngone 1 62"), 0o600))
	m, err := openMarkFile(path)
	must(t, "openMarkFile", err)
	if !m.isGone(1, "a") || m.isGone(1, "b") {
		t.Errorf("holds %v, want a alone", m.gone)
	}
	must(t, "setGone", m.setGone(1, "c", true))
	must(t, "close", m.close())
	m, err = openMarkFile(path)
	must(t, "openMarkFile", err)
	if !m.isGone(1, "a") || !m.isGone(1, "c") || m.count.Load() != 2 {
		t.Errorf("holds %v, want a and c", m.gone)
	}
}

func FuzzDirents(f *testing.F) {
	fd, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		f.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := unix.Getdents(fd, buf)
	if err != nil {
		f.Fatal(err)
	}
	unix.Close(fd)
	f.Add(buf[:n])
	f.Fuzz(func(t *testing.T, buf []byte) {
		entries, err := parseDirents(buf, 1, nil)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Name == "" || e.Name == "." || e.Name == ".." || strings.IndexByte(e.Name, 0) >= 0 {
				t.Errorf("an entry has the name %q", e.Name)
			}
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 'a', 0, 0, 0}, 3))
	f.Fuzz(func(t *testing.T, buf []byte) {
		events, _ := parseEvents(buf)
		for _, e := range events {
			if strings.IndexByte(e.child, 0) >= 0 {
				t.Errorf("an event has the name %q", e.child)
			}
		}
	})
}

var someOrigins = []origin{
	{}, {ino: 1}, {ino: 1<<64 - 1, links: -1, indexed: true}, {ino: 5, links: 7, indexed: true},
	{ino: 3, pending: true, copy: copyNote{layer: 300, size: 1 << 40, times: 1 << 63}},
	{pending: true, copy: copyNote{name: "a/\xff", sparse: true}},
}

func FuzzOrigin(f *testing.F) {
	for _, o := range someOrigins {
		f.Add(o.bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := parseOrigin(b)
		if o.bad {
			return
		}
		if again := parseOrigin(o.bytes()); again != o {
			t.Errorf("%+v is read back as %+v", o, again)
		}
	})
}

func TestOriginIsReadBack(t *testing.T) {
	t.Parallel()
	for _, o := range someOrigins {
		if got := parseOrigin(o.bytes()); got != o {
			t.Errorf("%+v is read back as %+v", o, got)
		}
	}
	for _, b := range []string{"", "\xff", "\x02", "\x00", "\x00\x01\x01"} {
		if got := parseOrigin([]byte(b)); !got.bad {
			t.Errorf("%q is read as %+v", b, got)
		}
	}
	o := origin{ino: 1 << 28, pending: true, copy: copyNote{layer: 3, size: 1 << 20, times: 1 << 63}}
	if n := len(o.bytes()); n > 24 {
		t.Errorf("an ordinary mark has %d bytes", n)
	}
}
