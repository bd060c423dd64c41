package transport

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// modes are the two ways in which a mount is served.
var modes = map[string]Options{"loop": {}, "clone": {Clone: true}, "plain": {Plain: true}}

func TestFilesGoThroughUnchanged(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := serve(t, newTestFS(), o).Mountpoint()
			for _, size := range []int{0, 1, 4095, 4096, 1<<20 - 1, 1 << 20, 5<<20 + 7} {
				want := make([]byte, size)
				rand.Read(want)
				name := filepath.Join(dir, "new")
				if err := os.WriteFile(name, want, 0o644); err != nil {
					t.Fatalf("WriteFile of %d bytes: %v", size, err)
				}
				got, err := os.ReadFile(name)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("ReadFile of %d bytes: got %d bytes, equal %v, error %v", size, len(got), bytes.Equal(got, want), err)
				}
				if err := os.Remove(name); err != nil {
					t.Fatalf("Remove: %v", err)
				}
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 || entries[0].Name() != "file" {
				t.Errorf("ReadDir: got %v, %v, want one entry, file", entries, err)
			}
		})
	}
}

func TestUnmountEndsServe(t *testing.T) {
	t.Parallel()
	needMount(t)
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fs, dir := newTestFS(), t.TempDir()
			s, err := Mount(dir, fs, testOptions(), o)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { s.Serve(); close(done) }()
			if err := s.WaitMount(); err != nil {
				t.Fatal(err)
			}
			if err := s.Unmount(); err != nil {
				t.Fatalf("Unmount: %v", err)
			}
			<-done
			<-fs.unmounted
			if err := s.Unmount(); err != nil {
				t.Errorf("second Unmount: got %v, want nil", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, syscall.ENOENT) {
				t.Errorf("Stat of a file of the mount after Unmount: got %v, want ENOENT", err)
			}
		})
	}
}
