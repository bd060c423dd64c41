package badgerkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
)

// reserveName is the file that keeps blocks for the tables that badger writes
// in the background. It has no content.
const reserveName = "RESERVE"

const (
	// step is how many bytes of log are allocated at once: more than the
	// largest group of batches takes.
	step = 8 << 20
	// slack is what badger's small files may take.
	slack = 16 << 20
	// smallBatch is how many bytes a batch may have to be taken when less than
	// Options.Headroom is free.
	smallBatch = 64 << 10
	// entryOverhead is what an entry takes of the log or of the table in
	// memory besides its key and value, at most.
	entryOverhead = 128
)

// A room sees to it that badger never writes to a hole of a mapped file on a
// full disk, which would be a SIGBUS. It belongs to the committing goroutine.
//
// Invariants after reserve returned nil: the log has blocks for the group that
// follows, and either RESERVE holds the blocks that writing out the table in
// memory takes, or as many were free just now.
type room struct {
	dir      string
	headroom int64
	// log is the number of the log that badger writes.
	log int
	// used is an upper bound of what the log and the table in memory hold.
	used int64
	// allocated is how many bytes of the log have blocks; 0 for none.
	allocated int64
	// spare is whether the log that badger will take next has been made.
	spare bool
}

// logPath returns the file of badger's log number n.
func (r *room) logPath(n int) string { return filepath.Join(r.dir, fmt.Sprintf("%05d.mem", n)) }

func (r *room) reservePath() string { return filepath.Join(r.dir, reserveName) }

// needed returns how many bytes badger writes to put used bytes that are in
// memory into a table.
func needed(used int64) int64 { return used + slack }

// prepare sees that badger has room to write out what is in the logs of dir when
// it opens it. The error is ErrFull if it has not.
func (r *room) prepare() error {
	files, err := survey(r.dir)
	if err != nil {
		return err
	}
	if err := r.secure(needed(files.logs)); err != nil {
		return fmt.Errorf("badgerkv: open %s: %w", r.dir, err)
	}
	return nil
}

// adopt finds the log that badger has made, once it is open. If there is no room
// for anything in it, the store can still be read.
func (r *room) adopt() error {
	files, err := survey(r.dir)
	if err != nil {
		return err
	}
	r.log = files.lastLog
	if err := r.extend(); !errors.Is(err, kvstore.ErrFull) {
		return err
	}
	return nil
}

// admits returns ErrFull if a batch of size bytes is too large for what is
// left of the disk.
func (r *room) admits(size int) error {
	if size <= smallBatch {
		return nil
	}
	free, err := freeSpace(r.dir)
	if err != nil {
		return fmt.Errorf("badgerkv: space of store: %v", err)
	}
	if free < r.headroom {
		return fmt.Errorf("%w: %d MiB free, batches over %d KiB need %d", kvstore.ErrFull, free>>20, smallBatch>>10, r.headroom>>20)
	}
	return nil
}

// reserve makes sure that badger can commit a group of need bytes. After an
// error, ErrFull mostly, nothing was committed and nothing is lost.
func (r *room) reserve(need int64) error {
	for r.used+need > r.allocated {
		if err := r.extend(); err != nil {
			return err
		}
	}
	if r.used < memtableSize/2 {
		return nil
	}
	if err := r.makeSpare(); err != nil && r.used >= memtableSize {
		return err
	}
	if r.used < memtableSize {
		return nil
	}
	return r.secure(needed(r.used)) // badger may write the table out now
}

// committed notes that a group of need bytes was committed, and reports whether
// badger went over to the spare log for it.
func (r *room) committed(need int64) (rotated bool, err error) {
	r.used += need
	if !r.spare {
		return false, nil
	}
	info, err := os.Stat(r.logPath(r.log + 1))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("badgerkv: look at log: %w", err)
	}
	r.log++
	r.spare, r.used, r.allocated = false, need, step
	return true, nil
}

// extend allocates the next step of the log, and covers what badger may have to
// do in the background once it is full.
func (r *room) extend() error {
	if err := allocate(r.logPath(r.log), r.allocated, step); err != nil {
		return r.full("log", err)
	}
	if err := r.cover(needed(r.allocated + step)); err != nil {
		return err
	}
	r.allocated += step
	return nil
}

// cover makes RESERVE n bytes long. While badger writes out the log before this
// one, RESERVE would take the room from it: then n bytes more must be free.
func (r *room) cover(n int64) error {
	_, err := os.Stat(r.logPath(r.log - 1))
	if errors.Is(err, fs.ErrNotExist) {
		return r.full("reserve", allocate(r.reservePath(), 0, n))
	}
	if err != nil {
		return fmt.Errorf("badgerkv: look at log: %w", err)
	}
	free, err := freeSpace(r.dir)
	if err != nil {
		return fmt.Errorf("badgerkv: space of store: %v", err)
	}
	if free < n+memtableSize {
		return r.full("reserve", syscall.ENOSPC)
	}
	return nil
}

// makeSpare makes the file that badger takes for its next log. Badger sets its
// length, which keeps the blocks, and takes only an empty file for a new one.
func (r *room) makeSpare() error {
	if r.spare {
		return nil
	}
	if err := allocate(r.logPath(r.log+1), 0, step); err != nil {
		return r.full("log", err) // an empty file does no harm
	}
	r.spare = true
	return syncDir(r.dir)
}

// secure returns nil if n bytes are free, giving up RESERVE if they would not
// be otherwise; else ErrFull.
func (r *room) secure(n int64) error {
	free, err := freeSpace(r.dir)
	if err != nil {
		return fmt.Errorf("badgerkv: space of store: %v", err)
	}
	if free >= n {
		return nil
	}
	held := diskSize(r.reservePath())
	if err := os.Remove(r.reservePath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("badgerkv: give up reserve: %v", err)
	}
	if free+held >= n {
		return nil
	}
	if err := allocate(r.reservePath(), 0, held); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("badgerkv: keep reserve: %v", err)
	}
	return fmt.Errorf("%w: %d MiB free for tables, %d needed", kvstore.ErrFull, (free+held)>>20, n>>20)
}

// secureAll returns nil if badger has room to write out what is in memory, to
// be closed.
func (r *room) secureAll() error { return r.secure(needed(r.used)) }

// full returns what a failed allocation of a part of the store means.
func (r *room) full(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: no room for the %s of %s", kvstore.ErrFull, what, r.dir)
	default:
		return fmt.Errorf("badgerkv: allocate %s of %s: %v", what, r.dir, err)
	}
}

// A fileSurvey is what a store's directory holds.
type fileSurvey struct {
	logs    int64 // bytes that all logs hold, at most
	lastLog int   // of those
}

// survey reads the directory of a store.
func survey(dir string) (fileSurvey, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fileSurvey{}, fmt.Errorf("badgerkv: read store directory: %w", err)
	}
	var s fileSurvey
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // badger has just removed it
		}
		if err != nil {
			return fileSurvey{}, fmt.Errorf("badgerkv: read store directory: %w", err)
		}
		s.add(filepath.Join(dir, e.Name()), info.Size())
	}
	return s, nil
}

// add counts the file path of size bytes in.
func (s *fileSurvey) add(path string, size int64) {
	base, ext, _ := strings.Cut(filepath.Base(path), ".")
	number, err := strconv.Atoi(base)
	if err != nil {
		return
	}
	if ext != "mem" || size == 0 {
		return
	}
	s.logs += min(size, diskSize(path)) // most of it is a hole
	s.lastLog = max(s.lastLog, number)
}
