//go:build linux

package fs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
)

// TestIdentity renames directories while others work in them through
// descriptors: each call must hit the directory that was opened, whatever its
// name is by then.
func TestIdentity(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			var seeds []seed
			for i := range 6 {
				dir := fmt.Sprintf("d%d/", i)
				seeds = append(seeds, seed{dir, 0o755, ""}, seed{dir + "sub/", 0o755, ""}, seed{dir + "sub/id", 0o644, strconv.Itoa(i)})
			}
			m := mount(t, k.layer(t, seeds...), fs.Options{Passthrough: true})
			t.Log(run(t, 0, "identity", m.dir, strconv.Itoa(100**soak)))
		})
	}
}

// playIdentity works in the directories of args[0] args[1] times per thread.
func playIdentity(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ids := make(map[uint64]string) // the content of id by the inode of its directory
	for i := range 6 {
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("%s/d%d/sub", args[0], i), &st); err != nil {
			return err
		}
		ids[st.Ino] = strconv.Itoa(i)
	}
	errs := make(chan error, 8)
	var done atomic.Bool
	var workers, movers sync.WaitGroup
	for range 3 {
		movers.Go(func() {
			for !done.Load() {
				if err := shuffle(args[0]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for range 5 {
		workers.Go(func() {
			for range count {
				if err := workIn(args[0], ids); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	done.Store(true)
	movers.Wait()
	close(errs)
	return <-errs
}

// shuffle swaps two directories, or moves one into another and back.
func shuffle(dir string) error {
	a, b := fmt.Sprintf("%s/d%d", dir, rand.IntN(6)), fmt.Sprintf("%s/d%d", dir, rand.IntN(6))
	if rand.IntN(2) == 0 {
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil && err != unix.ENOENT {
			return fmt.Errorf("exchange %s and %s: %w", a, b, err)
		}
		return nil
	}
	moved := fmt.Sprintf("%s/moved%d", b, rand.Int())
	if err := unix.Rename(a, moved); err != nil {
		return nil // into itself, or one of them is away
	}
	for {
		// b may be elsewhere by now, and a may be taken: look for it.
		base := moved[len(b):]
		for i := range 6 {
			for j := range 6 {
				from, to := fmt.Sprintf("%s/d%d%s", dir, i, base), fmt.Sprintf("%s/d%d", dir, j)
				if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE) == nil {
					return nil
				}
			}
		}
	}
}

// workIn opens a directory and checks that what it does there is done there.
func workIn(dir string, ids map[uint64]string) error {
	fd, err := unix.Open(fmt.Sprintf("%s/d%d/sub", dir, rand.IntN(6)), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	want := ids[st.Ino]
	for range 3 {
		file, err := unix.Openat(fd, "id", []int{unix.O_RDONLY, unix.O_RDWR}[rand.IntN(2)], 0)
		if err != nil {
			return fmt.Errorf("open id in %s: %w", want, err)
		}
		b := make([]byte, 16)
		n, err := unix.Read(file, b)
		unix.Close(file)
		if err != nil || string(b[:n]) != want {
			return fmt.Errorf("read id in %s: got %q, %w", want, b[:n], err)
		}
		name := strconv.Itoa(os.Getpid()) + strconv.Itoa(rand.Int())
		made, err := unix.Openat(fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("create in %s: %w", want, err)
		}
		unix.Close(made)
		if err := unix.Fchmodat(fd, name, 0o640, 0); err != nil {
			return fmt.Errorf("chmod in %s: %w", want, err)
		}
		if err := unix.Unlinkat(fd, name, 0); err != nil {
			return fmt.Errorf("unlink in %s: %w", want, err)
		}
	}
	return nil
}
