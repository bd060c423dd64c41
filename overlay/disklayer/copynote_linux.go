package disklayer

import (
	"encoding/json"
	"fmt"
)

// A copyNote is the value of the mark wsfs.copy: where the data of a copy comes
// from, so that it can be copied again.
type copyNote struct {
	Layer string
	Name  string
	// Size is the copy's size when it was made. A smaller file is short.
	Size int64
	// Sparse: the copy was made with holes. Without, a hole is missing data.
	Sparse bool

	// OriginSize, Mtime and Ctime (both in ns since 1970) are the origin's when
	// it was copied. If one differs now, it cannot be copied again.
	OriginSize int64
	Mtime      int64
	Ctime      int64
}

// noteJSON has Name and Layer as bytes: names are not text.
type noteJSON struct {
	Layer  []byte `json:"l"`
	Name   []byte `json:"n"`
	Size   int64  `json:"s"`
	Sparse bool   `json:"h,omitempty"`
	OSize  int64  `json:"o"`
	Mtime  int64  `json:"m"`
	Ctime  int64  `json:"c"`
}

func (n copyNote) bytes() []byte {
	b, err := json.Marshal(noteJSON{[]byte(n.Layer), []byte(n.Name), n.Size, n.Sparse, n.OriginSize, n.Mtime, n.Ctime})
	if err != nil {
		panic("BUG: a note of plain fields: " + err.Error())
	}
	return b
}

func parseNote(b []byte) (copyNote, error) {
	var j noteJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return copyNote{}, fmt.Errorf("mark %s: %w", markCopy, err)
	}
	if j.Size < 0 || j.OSize < 0 {
		return copyNote{}, fmt.Errorf("mark %s: negative size", markCopy)
	}
	return copyNote{string(j.Layer), string(j.Name), j.Size, j.Sparse, j.OSize, j.Mtime, j.Ctime}, nil
}
