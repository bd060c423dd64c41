package disklayer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A markFile holds the marks of a layer that its file system refuses to hold.
// On disk it is a log of lines, each a change; a line without an end was cut
// short by a crash and does not count. Files go by inode number, so renames
// leave it alone.
type markFile struct {
	path  string       // immutable
	count atomic.Int64 // entries in marks and gone

	mu sync.RWMutex
	// marks holds marks by inode number. Protected by mu.
	marks map[uint64]map[mark]string
	// gone holds whiteouts by the directory's inode number. A file of that
	// name takes precedence: a crash may leave both. Protected by mu.
	gone map[uint64]map[string]bool
	// log is open for appending once there is something to write; protected by mu.
	log *os.File
}

// openMarkFile reads the mark file at path; there need not be one.
func openMarkFile(path string) (*markFile, error) {
	f := &markFile{path: path, marks: make(map[uint64]map[mark]string), gone: make(map[uint64]map[string]bool)}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if err := f.apply(strings.TrimSuffix(string(line), "\n")); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, nil
}

// apply makes the change that line tells. Preconditions: f.mu is held, or f is
// not shared yet.
func (f *markFile) apply(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	number, rest, _ := strings.Cut(rest, " ")
	ino, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return fmt.Errorf("no inode number in %q", line)
	}
	key, value, _ := strings.Cut(rest, " ")
	switch verb {
	case "set":
		raw, err := hex.DecodeString(value)
		if err != nil {
			return fmt.Errorf("no value in %q", line)
		}
		put(f.marks, ino, mark(key), string(raw), &f.count)
	case "del":
		drop(f.marks, ino, mark(key), &f.count)
	case "gone", "back":
		name, err := hex.DecodeString(key)
		if err != nil {
			return fmt.Errorf("no name in %q", line)
		}
		if verb == "gone" {
			put(f.gone, ino, string(name), true, &f.count)
		} else {
			drop(f.gone, ino, string(name), &f.count)
		}
	case "forget":
		f.count.Add(-int64(len(f.marks[ino]) + len(f.gone[ino])))
		delete(f.marks, ino)
		delete(f.gone, ino)
	default:
		return fmt.Errorf("unknown change %q", line)
	}
	return nil
}

func put[K comparable, V any](m map[uint64]map[K]V, ino uint64, key K, value V, count *atomic.Int64) {
	if m[ino] == nil {
		m[ino] = make(map[K]V)
	}
	if _, ok := m[ino][key]; !ok {
		count.Add(1)
	}
	m[ino][key] = value
}

func drop[K comparable, V any](m map[uint64]map[K]V, ino uint64, key K, count *atomic.Int64) {
	if _, ok := m[ino][key]; !ok {
		return
	}
	count.Add(-1)
	delete(m[ino], key)
	if len(m[ino]) == 0 {
		delete(m, ino)
	}
}

// recordLocked appends line to the log and makes its change. Preconditions: f.mu is
// held.
func (f *markFile) recordLocked(line string) error {
	if f.log == nil {
		if err := f.startLocked(); err != nil {
			return err
		}
	}
	if _, err := f.log.WriteString(line + "\n"); err != nil {
		return errnoOf(err)
	}
	return f.apply(line)
}

// startLocked writes what f holds to a new log and opens it for appending, so
// that a cut line and changes that were undone are gone. Preconditions: f.mu is
// held.
func (f *markFile) startLocked() error {
	log, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errnoOf(err)
	}
	_, err = log.Write(f.linesLocked())
	if err == nil {
		err = log.Sync()
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		log.Close()
		return errnoOf(err)
	}
	f.log = log
	return nil
}

// linesLocked returns what f holds as a log. Preconditions: f.mu is held.
func (f *markFile) linesLocked() []byte {
	var b bytes.Buffer
	for _, ino := range slices.Sorted(maps.Keys(f.marks)) {
		for _, k := range slices.Sorted(maps.Keys(f.marks[ino])) {
			fmt.Fprintf(&b, "set %d %s %x\n", ino, k, f.marks[ino][k])
		}
	}
	for _, ino := range slices.Sorted(maps.Keys(f.gone)) {
		for _, name := range slices.Sorted(maps.Keys(f.gone[ino])) {
			fmt.Fprintf(&b, "gone %d %x\n", ino, name)
		}
	}
	return b.Bytes()
}

// empty reports whether f holds nothing.
func (f *markFile) empty() bool { return f.count.Load() == 0 }

// get returns the mark k of the file ino, nil if it has none.
func (f *markFile) get(ino uint64, k mark) []byte {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if value, ok := f.marks[ino][k]; ok {
		return []byte(value)
	}
	return nil
}

func (f *markFile) set(ino uint64, k mark, value []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recordLocked(fmt.Sprintf("set %d %s %x", ino, k, value))
}

func (f *markFile) remove(ino uint64, k mark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.marks[ino][k]; !ok {
		return nil
	}
	return f.recordLocked(fmt.Sprintf("del %d %s", ino, k))
}

// forget drops all that is held of ino, whose file is gone.
func (f *markFile) forget(ino uint64) error {
	if f.empty() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.marks[ino] == nil && f.gone[ino] == nil {
		return nil
	}
	return f.recordLocked(fmt.Sprintf("forget %d", ino))
}

// isGone reports whether name is whited out in the directory ino.
func (f *markFile) isGone(ino uint64, name string) bool {
	if f.empty() {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.gone[ino][name]
}

// setGone records whether name is whited out in the directory ino.
func (f *markFile) setGone(ino uint64, name string, gone bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.gone[ino][name] == gone:
		return nil
	case gone:
		return f.recordLocked(fmt.Sprintf("gone %d %x", ino, name))
	}
	return f.recordLocked(fmt.Sprintf("back %d %x", ino, name))
}

// goneIn returns the names that are whited out in the directory ino.
func (f *markFile) goneIn(ino uint64) []string {
	if f.empty() {
		return nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Collect(maps.Keys(f.gone[ino]))
}

// inodes returns the numbers of all files that f holds something of.
func (f *markFile) inodes() []uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return append(slices.Collect(maps.Keys(f.marks)), slices.Collect(maps.Keys(f.gone))...)
}

// sync makes all changes durable.
func (f *markFile) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		return nil
	}
	if err := f.log.Sync(); err != nil {
		return errnoOf(err)
	}
	return nil
}

func (f *markFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log == nil {
		return nil
	}
	err := f.log.Close()
	f.log = nil
	return err
}
