//go:build linux

package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// hostEdits is how many edits TestHostEdits makes, unless WSFS_HOST_EDITS says
// otherwise.
const hostEdits = 3000

// TestHostEdits changes the project on the host in every way while it is
// mounted: the next open sees it, the next stat soon does.
func TestHostEdits(t *testing.T) {
	t.Parallel()
	edits := hostEdits
	if s := os.Getenv("WSFS_HOST_EDITS"); s != "" {
		var err error
		if edits, err = strconv.Atoi(s); err != nil {
			t.Fatalf("WSFS_HOST_EDITS: %v", err)
		}
	}
	project := t.TempDir()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("d%d/f%d", i%4, i))
		put(t, project, names[i], "first\n")
	}
	w := mounted(t, project)
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range edits {
		name := names[rnd.IntN(len(names))]
		want := bytes.Repeat([]byte(fmt.Sprintf("%06d\n", i)), rnd.IntN(1500))
		how := editOnHost(t, rnd, filepath.Join(project, name), want)
		got, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("edit %d, %s %s: read %d bytes %.20q, %v, want %d bytes %.20q", i, how, name, len(got), got, err, len(want), want)
		}
		if rnd.IntN(8) == 0 {
			// Without an open in between only the watch tells.
			how = editOnHost(t, rnd, filepath.Join(project, name), append(want, "more\n"...))
			waitSize(t, filepath.Join(w.dir, name), int64(len(want)+5), how)
		}
	}
}

// editOnHost gives the file path the content and returns how.
func editOnHost(t *testing.T, rnd *rand.Rand, path string, content []byte) (how string) {
	t.Helper()
	var err error
	switch rnd.IntN(4) {
	case 0:
		how, err = "written anew", os.WriteFile(path, content, 0o644)
	case 1:
		how = "replaced by a rename"
		if err = os.WriteFile(path+".tmp", content, 0o644); err == nil {
			err = os.Rename(path+".tmp", path)
		}
	case 2:
		how = "removed and made"
		if err = os.Remove(path); err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
	case 3:
		how = "written in place"
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			defer f.Close()
			if _, err = f.WriteAt(content, 0); err == nil {
				err = f.Truncate(int64(len(content)))
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return how
}

// waitSize waits until path has size bytes.
func waitSize(t *testing.T, path string, size int64, how string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		info, err := os.Lstat(path)
		if err == nil && info.Size() == size {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s: stat still says %v, %v after 30 s, want %d bytes", path, how, info, err, size)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHostNames makes, removes and renames names in the project while it is
// mounted; the mount has looked all of them up before.
func TestHostNames(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	put(t, project, "d/old", "old\n")
	put(t, project, "d/gone", "gone\n")
	put(t, project, "d/sub/f", "f\n")
	w := mounted(t, project)
	look := func() (names []string) {
		for _, n := range []string{"d/old", "d/gone", "d/sub/f", "d/new", "d/sub2/f", "d/renamed"} {
			if _, err := os.Stat(filepath.Join(w.dir, n)); err == nil {
				names = append(names, n)
			}
		}
		entries, err := os.ReadDir(filepath.Join(w.dir, "d"))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	look() // so that what is absent is cached as absent
	script(t, project, `cd d && echo new >new && rm gone && mv sub sub2 && mv old renamed`)
	want := fmt.Sprint([]string{"d/new", "d/sub2/f", "d/renamed", "new", "renamed", "sub2"})
	deadline := time.Now().Add(30 * time.Second)
	for got := ""; got != want; got = fmt.Sprint(look()) {
		if time.Now().After(deadline) {
			t.Fatalf("30 s after the host's changes: got %s, want %s", got, want)
		}
		time.Sleep(time.Millisecond)
	}
}
