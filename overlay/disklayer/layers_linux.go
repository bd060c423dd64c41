package disklayer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A layerTable gives the layers that copies come from short numbers, for marks.
// On disk it is a file with a line for each layer, its id in hexadecimal.
type layerTable struct {
	mu      sync.Mutex
	ids     []string          // by number; protected by mu
	numbers map[string]uint64 // protected by mu
}

const layersName = "layers"

// openLayers reads the table in the file path; there need not be one. A line
// that was cut short by a crash has not been used.
func openLayers(path string) (*layerTable, error) {
	t := &layerTable{numbers: make(map[string]uint64)}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		id, err := hex.DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no layer", path, line)
		}
		t.numbers[string(id)] = uint64(len(t.ids))
		t.ids = append(t.ids, string(id))
	}
	return t, nil
}

// id returns the layer with the number n.
func (t *layerTable) id(n uint64) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n >= uint64(len(t.ids)) {
		return "", false
	}
	return t.ids[n], true
}

// number returns the number of the layer id. A new one is durable then.
func (t *layerTable) number(u *Upper, id string) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.numbers[id]; ok {
		return n, nil
	}
	if err := t.writeLocked(u, append(t.ids[:len(t.ids):len(t.ids)], id)); err != nil {
		return 0, err
	}
	n := uint64(len(t.ids))
	t.numbers[id] = n
	t.ids = append(t.ids, id)
	return n, nil
}

// writeLocked has the file hold ids, in one step. Preconditions: t.mu is held.
func (t *layerTable) writeLocked(u *Upper, ids []string) error {
	var text []byte
	for _, id := range ids {
		text = fmt.Appendf(text, "%x\n", id)
	}
	if err := u.step("write layers"); err != nil {
		return err
	}
	return u.writeMeta(layersName, text)
}

// writeMeta has the file name of the meta directory hold text, in one step and
// durably.
func (u *Upper) writeMeta(name string, text []byte) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(u.meta, name+".new", flags, 0o600)
	if err != nil {
		return err
	}
	err = writeAll(fd, text, 0)
	if err == nil {
		err = unix.Fsync(fd)
	}
	unix.Close(fd)
	if err != nil {
		return err
	}
	if err := unix.Renameat(u.meta, name+".new", u.meta, name); err != nil {
		return err
	}
	return unix.Fsync(u.meta)
}
