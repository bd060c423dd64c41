package transport

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// modes are the two ways in which a mount is served.
var modes = map[string]Options{"loop": {}, "readers": {Readers: 3}, "plain": {Plain: true}}

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
			if err := unmountIdle(s); err != nil {
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

// TestLargeRequests reads and writes in order: requests have to come as large
// as the options allow, and not as the kernel starts with, 128 KiB.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fs := newTestFS("big")
			fs.files[fs.names["big"]].data = make([]byte, 8<<20)
			s := serve(t, fs, o)
			f, err := os.Open(filepath.Join(s.Mountpoint(), "big"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
			fs.mu.Lock()
			defer fs.mu.Unlock()
			if fs.most != 1<<20 {
				t.Errorf("largest READ: got %d bytes, want 1 MiB", fs.most)
			}
		})
	}
}
