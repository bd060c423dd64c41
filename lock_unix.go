//go:build unix

package wsfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockFile takes the lock path for this process until unlock, and writes the
// process id into it. what names the locked thing in the error that says who
// holds it. A process that ended, however, holds no lock.
func lockFile(path, what string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		holder := lockHolder(path)
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		return nil, fmt.Errorf("%s: %w by process %s", what, ErrInUse, holder)
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil && !noRoom(err) {
		f.Close()
		return nil, err
	}
	return func() error {
		// Closing is not enough: a child that was just forked has the
		// descriptor, too, until it executes its program.
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}

// dying is how long a process that was killed may take to let go of its locks.
const dying = time.Second

// flock locks f, waiting a moment for a holder that is about to be gone.
func flock(f *os.File) error {
	for deadline := time.Now().Add(dying); ; time.Sleep(dying / 100) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(deadline) {
			return err
		}
	}
}

// noRoom reports whether err is of a full disk. The lock holds all the same, and
// who wants to make room has to get this far; only the name of its holder is
// missing, or an older one.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
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
