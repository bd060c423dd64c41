package kvlayer

import (
	"context"
	"errors"
	"syscall"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/overlay"
)

// Log returns what commits did at name, the newest first: all that history
// keeps. A name that never was has an empty log. The directory must exist.
func (l *Layer) Log(ctx context.Context, name overlay.Name) ([]Version, error) {
	if err := name.Check("log"); err != nil {
		return nil, err
	}
	if err := l.fresh(ctx); err != nil {
		return nil, pathError("log", name, err)
	}
	at, err := locate(ctx, l, name)
	if err != nil {
		return nil, pathError("log", name, err)
	}
	var versions []Version
	err = l.scan(ctx, l.keys.log(at), func(item kvstore.Item) (bool, error) {
		_, n, _ := splitBefore(item.Key)
		v, err := decodeVersion(n, item.Value)
		if err != nil {
			return false, l.corrupt("log", item.Key)
		}
		versions = append(versions, v)
		return true, nil
	})
	return versions, pathError("log", name, err)
}

// Pin keeps the state after commit n for AsOf until Unpin(id). A pin of the
// same id moves to n. ErrGone as from AsOf.
func (l *Layer) Pin(ctx context.Context, id string, n uint64) error {
	if len(id) > overlay.MaxComponent || id == "" {
		return overlay.PathError("pin", overlay.Root, syscall.EINVAL)
	}
	// In one batch with the head, so that no sweep raises the floor meanwhile.
	err := l.update(ctx, func(t *tx) error {
		kept, err := l.keptBy(ctx, t.head, n)
		if err != nil {
			return err
		}
		if !kept {
			return ErrGone
		}
		t.quiet = true
		t.puts = []kvstore.Op{{Kind: kvstore.OpPut, Key: l.keys.prefix(kindPin, []byte(id)...), Value: encodeNumber(n)}}
		return nil
	})
	if errors.Is(err, ErrGone) {
		return ErrGone
	}
	return pathError("pin", overlay.Root, errnoOf(err))
}

// Unpin gives up what Pin(id) keeps. It is not an error if that is nothing.
func (l *Layer) Unpin(ctx context.Context, id string) error {
	b := &kvstore.Batch{}
	b.Delete(l.keys.prefix(kindPin, []byte(id)...))
	return pathError("unpin", overlay.Root, errnoOf(l.apply(ctx, b)))
}

func encodeNumber(n uint64) []byte {
	e := newEncoder(8)
	e.uint(n)
	return e.b
}

// pins returns the commits that are pinned.
func (l *Layer) pins(ctx context.Context) (pins []uint64, err error) {
	err = l.scan(ctx, l.keys.prefix(kindPin), func(item kvstore.Item) (bool, error) {
		d := newDecoder(item.Value)
		n := d.uint()
		if d.end() != nil {
			return false, l.corrupt("pin", item.Key)
		}
		pins = append(pins, n)
		return true, nil
	})
	return pins, err
}
