//go:build linux

package fs_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
)

// TestModeOfOpens opens few files in all ways from eight threads: the kernel
// answers EIO where an inode is opened in another mode than it is open in.
func TestModeOfOpens(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			seeds := []seed{}
			for i := range 4 {
				seeds = append(seeds, seed{fmt.Sprintf("f%d", i), 0o666, "project"})
			}
			m := mount(t, k.layer(t, seeds...), fs.Options{Passthrough: true})
			t.Log(run(t, 0, "opens", m.dir, strconv.Itoa(1000**soak)))
		})
	}
}

// playOpens opens files of args[0] in eight threads, args[1] times each.
func playOpens(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	errs := make(chan error, 8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range count {
				if err := openOne(args[0]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// openOne opens a file in some way and uses it.
func openOne(dir string) error {
	path := fmt.Sprintf("%s/f%d", dir, rand.IntN(4))
	flags := []int{unix.O_RDONLY, unix.O_RDONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_APPEND, unix.O_RDWR | unix.O_CREAT,
		unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC}[rand.IntN(6)]
	if rand.IntN(20) == 0 {
		if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
			return fmt.Errorf("unlink %s: %w", path, err)
		}
		return nil
	}
	if rand.IntN(20) == 0 {
		if err := unix.Rename(path, fmt.Sprintf("%s/f%d", dir, rand.IntN(4))); err != nil && err != unix.ENOENT {
			return fmt.Errorf("rename %s: %w", path, err)
		}
		return nil
	}
	fd, err := unix.Open(path, flags, 0o666)
	if err == unix.ENOENT && flags&unix.O_CREAT == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s with %#x: %w", path, flags, err)
	}
	b := []byte("12345678")
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		_, err = unix.Read(fd, b)
	} else {
		_, err = unix.Write(fd, b)
	}
	if err != nil {
		return fmt.Errorf("use %s, opened with %#x: %w", path, flags, err)
	}
	return unix.Close(fd)
}
