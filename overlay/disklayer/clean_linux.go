package disklayer

import (
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/overlay"
)

// A cleanNote is the content of the file clean.
type cleanNote struct {
	Version int `json:"version"`
	// Names are the names, as bytes, of every file with several, by inode
	// number.
	Names map[uint64][][]byte `json:"names"`
}

// leaveClean notes that the layer was left with everything durable. Without room
// for the note there is none, which costs the next Recover a walk and loses
// nothing.
func (u *Upper) leaveClean() error {
	note := cleanNote{Version: 1, Names: make(map[uint64][][]byte)}
	for ino, names := range u.names.all() {
		for _, n := range names {
			note.Names[ino] = append(note.Names[ino], []byte(n))
		}
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	if err := u.step("write clean"); err != nil {
		return err
	}
	err = u.writeMeta(cleanName, text)
	if is(err, unix.ENOSPC, unix.EDQUOT) {
		u.opt.Log.Warn("disklayer: no room to note the clean end", "meta", u.opt.Meta, "err", err)
		return nil
	}
	if err != nil {
		return describe("note the clean end of", u.opt.Meta, err)
	}
	return nil
}

// takeClean reads the note of a clean end and removes it durably: from here on
// an end is unclean until Close.
func (u *Upper) takeClean() error {
	u.names = newNameTable()
	path := u.opt.Meta + "/" + cleanName
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var note cleanNote
	if err := json.Unmarshal(text, &note); err == nil && note.Version == 1 {
		for ino, names := range note.Names {
			for _, n := range names {
				u.names.add(ino, overlay.Name(n))
			}
		}
		u.sound.Store(true)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return unix.Fsync(u.meta)
}
