package badgerkv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/wsfs/wsfs/kvstore"
)

// A stage is a transaction that is being filled. An error of its methods means
// that nothing of it was written.
type stage struct {
	txn *badger.Txn
	// footprint is how many bytes the transaction takes of a log, or of the
	// table in memory, at most.
	footprint int64
	// garbage is how many bytes of values it replaces or removes, about.
	garbage int64
}

// set puts an entry into the transaction, with how many parts follow it.
func (st *stage) set(key, value []byte, further int) error {
	st.footprint += int64(len(key)+len(value)) + entryOverhead
	return stageError(st.txn.SetEntry(badger.NewEntry(key, value).WithMeta(byte(further))))
}

// remove puts the removal of key into the transaction.
func (st *stage) remove(key []byte) error {
	st.footprint += int64(len(key)) + entryOverhead
	return stageError(st.txn.Delete(key))
}

func stageError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("badgerkv: stage write: %v", err)
}

// stage puts w into st: the removal of the old value's parts, then the new
// value.
func (c *committer) stage(st *stage, w write) error {
	key := []byte(w.key)
	if err := st.dropOld(key); err != nil {
		return err
	}
	if w.del {
		return st.remove(key)
	}
	further := parts(len(w.value))
	if further == 0 {
		return st.set(key, w.value, 0)
	}
	blob := c.nextBlob
	c.nextBlob++
	record, rest := cut(w.value, blob)
	for i, part := range rest {
		if err := st.set(partKey(blob, i+1), part, 0); err != nil {
			return err
		}
	}
	return st.set(key, record, further)
}

// dropOld removes the further parts of what key holds, if it has any, and counts
// what becomes garbage.
func (st *stage) dropOld(key []byte) error {
	old, err := st.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return readError(err)
	}
	further := int(old.UserMeta())
	st.garbage += old.EstimatedSize() + int64(further*maxPart)
	if further == 0 {
		return nil
	}
	return old.Value(func(record []byte) error {
		if len(record) < blobLen {
			return fmt.Errorf("%w: record of key %q has %d bytes", kvstore.ErrCorrupt, key[1:], len(record))
		}
		blob := binary.BigEndian.Uint64(record)
		for i := 1; i <= further; i++ {
			if err := st.remove(partKey(blob, i)); err != nil {
				return err
			}
		}
		return nil
	})
}
