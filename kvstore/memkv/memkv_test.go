package memkv_test

import (
	"errors"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/kvtest"
	"github.com/wsfs/wsfs/kvstore/memkv"
)

func TestStore(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(*testing.T) kvstore.Store { return memkv.New() })
}

func TestLimit(t *testing.T) {
	t.Parallel()
	s := memkv.New()
	s.Limit = 10
	apply := func(build func(b *kvstore.Batch)) error {
		var b kvstore.Batch
		build(&b)
		return s.Apply(t.Context(), &b)
	}
	if err := apply(func(b *kvstore.Batch) { b.Put("a", make([]byte, 9)) }); err != nil {
		t.Fatalf("Apply up to the limit: got %v, want nil", err)
	}
	full := func(b *kvstore.Batch) { b.Put("a", nil); b.Put("b", make([]byte, 9)) }
	if err := apply(full); !errors.Is(err, kvstore.ErrFull) {
		t.Fatalf("Apply over the limit: got %v, want ErrFull", err)
	}
	if item, err := s.Get(t.Context(), "a"); err != nil || len(item.Value) != 9 {
		t.Fatalf("Get(a) after ErrFull: got %d bytes, %v, want 9", len(item.Value), err)
	}
	if err := apply(func(b *kvstore.Batch) { b.Delete("a") }); err != nil {
		t.Fatalf("Delete in a full store: got %v, want nil", err)
	}
	if err := apply(func(b *kvstore.Batch) { b.Put("b", make([]byte, 9)) }); err != nil {
		t.Fatalf("Apply after room was made: got %v, want nil", err)
	}
}
