package kvstore

import "fmt"

// Validate returns nil if key may be used, and an error that wraps ErrEmptyKey
// or ErrTooLarge otherwise.
func (key Key) Validate() error {
	switch {
	case key == "":
		return ErrEmptyKey
	case len(key) > MaxKey:
		return fmt.Errorf("%w: key of %d bytes, limit %d", ErrTooLarge, len(key), MaxKey)
	}
	return nil
}

// Validate returns nil if b is within the limits that every backend holds, and
// an error that wraps ErrEmptyKey or ErrTooLarge otherwise. Backends call it
// first in Apply. An unknown kind of Op is a broken program and panics.
func (b *Batch) Validate() error {
	if len(b.Ops) > MaxOps {
		return fmt.Errorf("%w: batch of %d operations, limit %d", ErrTooLarge, len(b.Ops), MaxOps)
	}
	total := 0
	for _, op := range b.Ops {
		if op.Kind > OpCheck {
			panic(fmt.Sprintf("BUG: kvstore: op of unknown kind %d", op.Kind))
		}
		if err := op.Key.Validate(); err != nil {
			return err
		}
		if len(op.Value) > MaxValue {
			return fmt.Errorf("%w: value of %d bytes, limit %d", ErrTooLarge, len(op.Value), MaxValue)
		}
		total += len(op.Key) + len(op.Value)
	}
	if total > MaxBatch {
		return fmt.Errorf("%w: batch of %d bytes, limit %d", ErrTooLarge, total, MaxBatch)
	}
	return nil
}
