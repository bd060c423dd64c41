package badgerkv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wsfs/wsfs/kvstore"
)

// holderName is the file in a store's directory that is locked while a Store
// has it open, and names the process. The lock goes with the process: after a
// kill the file is stale and stops nobody.
const holderName = "HOLDER"

// A LockedError is the error of Open while another Store has the directory
// open. It is a kvstore.ErrLocked.
type LockedError struct {
	Dir     string
	PID     int    // of the holder; 0 if it is not known
	Command string // the holder's name; empty if it is not known
}

// Error names the holder and what to do.
func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.Command != "" {
		who += " (" + e.Command + ")"
	}
	return fmt.Sprintf("badgerkv: store %s is in use by %s; stop it or choose another directory", e.Dir, who)
}

// Is reports whether target is kvstore.ErrLocked.
func (e *LockedError) Is(target error) bool { return target == kvstore.ErrLocked }

// A holder is the lock on a store's directory.
type holder struct{ file *os.File }

// acquire makes dir if it does not exist and locks it. It does not wait: the
// error is a *LockedError if dir is held.
func acquire(dir string) (*holder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("badgerkv: make store directory %s: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, holderName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("badgerkv: open store %s: %w", dir, err)
	}
	switch locked, err := lockFile(file); {
	case err != nil:
		file.Close()
		return nil, fmt.Errorf("badgerkv: lock store %s: %w", dir, err)
	case !locked:
		defer file.Close()
		return nil, heldBy(dir, file)
	}
	if err := writeHolder(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("badgerkv: note holder of store %s: %w", dir, err)
	}
	return &holder{file}, nil
}

// writeHolder makes this process' number the content of file.
func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// heldBy returns the LockedError that file, the holder file of dir, tells of.
func heldBy(dir string, file *os.File) error {
	e := &LockedError{Dir: dir}
	buf := make([]byte, 32)
	n, _ := file.ReadAt(buf, 0) // a holder that has not signed yet is not named
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid <= 0 {
		return e
	}
	e.PID = pid
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err == nil {
		e.Command = strings.TrimSpace(string(comm))
	}
	return e
}

// release lets others open the directory. Closing the file is not enough: a
// process that is being started at this moment has a copy of the descriptor
// until it execs, and the lock would stay that long.
func (h *holder) release() error {
	if err := errors.Join(h.file.Truncate(0), unlockFile(h.file), h.file.Close()); err != nil {
		return fmt.Errorf("badgerkv: release store: %w", err)
	}
	return nil
}
