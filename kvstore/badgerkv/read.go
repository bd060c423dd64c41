package badgerkv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/wsfs/wsfs/kvstore"
)

// load returns the item whose record is given, with the further parts of its
// value.
func load(txn *badger.Txn, record *badger.Item) (kvstore.Item, error) {
	item := kvstore.Item{Key: kvstore.Key(record.Key()[1:]), Version: record.Version()}
	value, err := record.ValueCopy(nil)
	if err != nil {
		return kvstore.Item{}, readError(err)
	}
	further := int(record.UserMeta())
	if further == 0 {
		item.Value = value
		return item, nil
	}
	if len(value) < blobLen {
		return kvstore.Item{}, fmt.Errorf("%w: record of key %q has %d bytes", kvstore.ErrCorrupt, item.Key, len(value))
	}
	blob := binary.BigEndian.Uint64(value)
	item.Value = value[blobLen:]
	for i := 1; i <= further; i++ {
		part, err := txn.Get(partKey(blob, i))
		if err != nil {
			return kvstore.Item{}, fmt.Errorf("%w: part %d of %d of key %q: %v", kvstore.ErrCorrupt, i, further, item.Key, err)
		}
		if err := part.Value(func(b []byte) error {
			item.Value = append(item.Value, b...)
			return nil
		}); err != nil {
			return kvstore.Item{}, readError(err)
		}
	}
	return item, nil
}

// readError returns what a failed read of badger means to a caller.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, badger.ErrKeyNotFound):
		return kvstore.ErrNotFound
	default:
		return fmt.Errorf("%w: %v", kvstore.ErrCorrupt, err)
	}
}
