//go:build unix

package wsfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile takes the lock path for this process until unlock, and writes the
// process id into it. what names the locked thing in the error that says who
// holds it. A process that ended, however, holds no lock.
func lockFile(path, what string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := lockHolder(path)
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		return nil, fmt.Errorf("%s is in use by process %s: %w", what, holder, ErrInUse)
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		f.Close()
		return nil, err
	}
	return func() error {
		// Closing is not enough: a child that was just forked has the
		// descriptor, too, until it executes its program.
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}

func writePID(f *os.File) error {
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// lockHolder returns the process id in the lock file, or "unknown".
func lockHolder(path string) string {
	data, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(data))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "unknown"
	}
	return pid
}
