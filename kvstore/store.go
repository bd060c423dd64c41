// Package kvstore is the interface to the key-value stores that hold shared
// memory, and its words: a key is bytes, a value is bytes, a version belongs
// to a key and only grows. Backends are packages below this one; kvtest is the
// suite that each of them has to pass.
package kvstore

import (
	"context"
	"errors"
)

// A Key is a byte string in a store's one flat, ordered key space. At most
// MaxKey bytes, not empty.
type Key string

// Limits that every backend holds. A larger key or value is refused with
// ErrTooLarge before anything is written.
const (
	MaxKey   = 1 << 10 // bytes
	MaxValue = 2 << 20 // bytes; a chunk of a file is at most 1 MiB
	MaxBatch = 4 << 20 // bytes of keys and values in one Batch
	MaxOps   = 10_000  // operations in one Batch
)

var (
	// ErrNotFound: the key holds no value.
	ErrNotFound = errors.New("kvstore: key not found")
	// ErrConflict: a Check of the batch did not hold; nothing was written.
	ErrConflict = errors.New("kvstore: version conflict")
	// ErrTooLarge: a key, a value, or a batch's bytes or operations are over
	// the limits above.
	ErrTooLarge = errors.New("kvstore: too large")
	// ErrEmptyKey: an operation named the empty key. It is not a prefix: Scan
	// takes the empty prefix for everything.
	ErrEmptyKey = errors.New("kvstore: empty key")
	// ErrFull: the store has no room; nothing was written.
	ErrFull = errors.New("kvstore: store is full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("kvstore: closed")
	// ErrUnavailable: the store did not answer in time, or failed in the middle
	// of a write. A batch may have been written.
	ErrUnavailable = errors.New("kvstore: store does not answer")
	// ErrLocked: opening failed, because another process has the store open.
	ErrLocked = errors.New("kvstore: store is in use")
	// ErrCorrupt: what the store holds is damaged. Nothing was changed.
	ErrCorrupt = errors.New("kvstore: store is damaged")
)

// An Item is a key and what it holds.
type Item struct {
	Key   Key
	Value []byte // the caller's to keep
	// Version is larger than that of every value the key held before, also
	// over deletion. Never 0.
	Version uint64
}

// A Store is an ordered map from keys to values. All methods may be called
// concurrently. Errors wrap one of the values above or are the backend's own;
// a caller must not take an errno inside them for a file's.
type Store interface {
	// Get returns the newest item of key: every Apply that returned before
	// Get began is seen.
	Get(ctx context.Context, key Key) (Item, error)
	// Scan calls fn for each item whose key begins with prefix, in ascending
	// order, each once, as of one moment no earlier than the call. It ends at
	// the first error of fn and returns it. fn must not call the store.
	Scan(ctx context.Context, prefix Key, fn func(Item) error) error
	// Apply does all of b or none of it, and is durable when it returns nil
	// (unless the store was opened otherwise).
	Apply(ctx context.Context, b *Batch) error
	// Close releases the store; calls that run are finished first. Closing
	// twice is harmless.
	Close() error
}

// A Watcher is a Store with a change feed.
type Watcher interface {
	// Watch calls fn with the key of every change under prefix that is
	// applied after Watch was ready, at least once each, from one goroutine.
	// ready (may be nil) is called when that holds. Watch returns when ctx is
	// done, or with an error when the feed broke and changes may be missed.
	Watch(ctx context.Context, prefix Key, ready func(), fn func(Key)) error
}

// A Batch collects changes for Apply. The zero value is an empty batch.
type Batch struct {
	Ops []Op
}

// An OpKind is what an Op does.
type OpKind uint8

const (
	OpPut OpKind = iota
	OpDelete
	OpCheck
)

// An Op is a step of a Batch. Checks are all made before the first change.
type Op struct {
	Kind    OpKind
	Key     Key
	Value   []byte
	Version uint64 // of OpCheck
}

// Put sets key to value.
func (b *Batch) Put(key Key, value []byte) {
	b.Ops = append(b.Ops, Op{Kind: OpPut, Key: key, Value: value})
}

// Delete removes key; it need not exist.
func (b *Batch) Delete(key Key) { b.Ops = append(b.Ops, Op{Kind: OpDelete, Key: key}) }

// Check has Apply fail with ErrConflict unless key's version is version; 0
// means that key holds nothing.
func (b *Batch) Check(key Key, version uint64) {
	b.Ops = append(b.Ops, Op{Kind: OpCheck, Key: key, Version: version})
}
