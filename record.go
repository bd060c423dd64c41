package wsfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
)

// recordVersion is the format of workspace.json. A reader refuses others.
const recordVersion = 1

// A record is workspace.json: what a workspace is, and its stack of layers. It
// is replaced as a whole, so a reader sees the old one or the new one.
type record struct {
	Version int `json:"version"`
	// ID is the workspace's own, unlike the name, in all state directories: it
	// is what private files in a shared store are kept under.
	ID     string `json:"id"`
	Config Config `json:"config"`
	// Layers are the directories below layers/, the upper first.
	Layers []string `json:"layers"`
}

// recordFile is the record's name in the workspace's directory.
const recordFile = "workspace.json"

// readRecord returns the record in dir, or an error that is fs.ErrNotExist if
// the workspace has none yet.
func readRecord(dir string) (record, error) {
	path := filepath.Join(dir, recordFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("%s is damaged: %v; put back a copy, or move %s away to start a new workspace", path, err, dir)
	}
	if r.Version != recordVersion {
		return record{}, fmt.Errorf("%s has format %d, this wsfs knows %d: use the wsfs that wrote it, or a newer one", path, r.Version, recordVersion)
	}
	return r, r.check(path)
}

// check refuses a record whose layers are not plain names: they are joined to
// a host path.
func (r record) check(path string) error {
	if r.ID == "" || len(r.Layers) == 0 {
		return fmt.Errorf("%s is damaged: it has no id or no layers", path)
	}
	for _, l := range r.Layers {
		if !filepath.IsLocal(l) || filepath.Base(l) != l {
			return fmt.Errorf("%s names a layer %q outside the workspace", path, l)
		}
	}
	return nil
}

// write replaces the record in dir, durably. One that has not changed stays, so
// that a workspace opens on a full disk.
func (r record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := filepath.Join(dir, recordFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return writeDurably(path, data)
}

// writeDurably replaces the file path by data: written aside, synced, renamed
// into place, and the directory synced. A failure leaves the old file.
func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweepRecords removes what writes of the record left behind when they were
// cut short.
func sweepRecords(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "."+recordFile+"-*"))
	for _, name := range names {
		if e := os.Remove(name); e != nil && !errors.Is(e, iofs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
