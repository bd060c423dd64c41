package kvtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/kvstore"
)

// runModel runs random operations against a store and a map, with reopening if
// the store is durable. The store lives through all runs, so that its content
// grows; the model starts with what it holds.
func runModel(t *testing.T, open Open, durable bool) {
	s := open(t)
	defer func() { closeStore(t, s) }()
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, t, s)
		actions := map[string]func(*rapid.T){
			"apply": m.apply,
			"get":   m.get,
			"scan":  m.scan,
		}
		if durable {
			actions["reopen"] = func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "not now") != 0 {
					return // most runs have it once or not at all
				}
				if err := s.Close(); err != nil {
					rt.Fatalf("Close: got %v, want nil", err)
				}
				s = open(t)
				m.store = s
			}
		}
		rt.Repeat(actions)
	})
}

// A model is what a store should hold.
type model struct {
	t     *testing.T
	store kvstore.Store
	items map[kvstore.Key]kvstore.Item
	// floor are the largest versions seen of keys, over deletion.
	floor map[kvstore.Key]uint64
}

func newModel(rt *rapid.T, t *testing.T, s kvstore.Store) *model {
	m := &model{t: t, store: s, items: map[kvstore.Key]kvstore.Item{}, floor: map[kvstore.Key]uint64{}}
	items, err := scan(t.Context(), s, "")
	if err != nil {
		rt.Fatalf("Scan: got %v, want nil", err)
	}
	for _, item := range items {
		m.learn(item)
	}
	return m
}

func (m *model) learn(item kvstore.Item) {
	m.items[item.Key] = item
	m.floor[item.Key] = item.Version
}

// keys are few and short, so that they meet and are prefixes of each other.
var keys = rapid.Custom(func(rt *rapid.T) kvstore.Key {
	return kvstore.Key(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\x00\xff*")), 1, 3).Draw(rt, "key"))
})

// drawValue draws a value, mostly short, rarely long enough to be stored in
// another way. Only its length and a salt are drawn, so that a failure does not
// print it.
func drawValue(rt *rapid.T) []byte {
	n := rapid.IntRange(0, 40).Draw(rt, "length")
	switch n {
	case 39:
		n = 1 << 20
	case 38:
		n = 5000
	}
	return pattern(n, rapid.Byte().Draw(rt, "salt"))
}

// apply applies a random batch, with checks of which some do not hold.
func (m *model) apply(rt *rapid.T) {
	var b kvstore.Batch
	holds := true
	next := maps.Clone(m.items)
	for range rapid.IntRange(0, 3).Draw(rt, "operations") {
		key := keys.Draw(rt, "key")
		switch rapid.SampledFrom([]string{"put", "put", "delete", "check"}).Draw(rt, "kind") {
		case "put":
			value := drawValue(rt)
			b.Put(key, value)
			next[key] = kvstore.Item{Key: key, Value: value}
		case "delete":
			b.Delete(key)
			delete(next, key)
		case "check":
			version := m.items[key].Version
			if rapid.IntRange(0, 4).Draw(rt, "stale") == 0 {
				version += rapid.SampledFrom([]uint64{1, ^uint64(0)}).Draw(rt, "by")
				holds = false
			}
			b.Check(key, version)
		}
	}
	switch err := m.store.Apply(m.t.Context(), &b); {
	case holds && err != nil:
		rt.Fatalf("Apply: got %v, want nil", err)
	case !holds && !errors.Is(err, kvstore.ErrConflict):
		rt.Fatalf("Apply with a stale check: got %v, want ErrConflict", err)
	case holds:
		m.items = next
		m.refresh(rt, &b)
	}
}

// refresh learns the versions that b gave, and checks that they have grown.
func (m *model) refresh(rt *rapid.T, b *kvstore.Batch) {
	for _, op := range b.Ops {
		want, present := m.items[op.Key]
		if op.Kind != kvstore.OpPut || !present {
			continue
		}
		got, err := m.store.Get(m.t.Context(), op.Key)
		if err != nil || got.Version < want.Version {
			rt.Fatalf("Get(%q) after Put: got version %d, %v, want over %d", op.Key, got.Version, err, want.Version)
		}
		if want.Version == 0 && got.Version <= m.floor[op.Key] {
			rt.Fatalf("Get(%q) after Put: got version %d, want over %d", op.Key, got.Version, m.floor[op.Key])
		}
		if string(got.Value) != string(want.Value) {
			rt.Fatalf("Get(%q) after Put: got %d other bytes, want %d", op.Key, len(got.Value), len(want.Value))
		}
		m.learn(got)
	}
}

func (m *model) get(rt *rapid.T) {
	key := keys.Draw(rt, "key")
	want, present := m.items[key]
	got, err := m.store.Get(m.t.Context(), key)
	switch {
	case !present && !errors.Is(err, kvstore.ErrNotFound):
		rt.Fatalf("Get(%q): got %v, want ErrNotFound", key, err)
	case present && (err != nil || difference(got, want) != ""):
		rt.Fatalf("Get(%q): got %s, %v", key, difference(got, want), err)
	}
}

func (m *model) scan(rt *rapid.T) {
	prefix := kvstore.Key(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\x00\xff*")), 0, 2).Draw(rt, "prefix"))
	var want []kvstore.Key
	for _, key := range slices.Sorted(maps.Keys(m.items)) {
		if strings.HasPrefix(string(key), string(prefix)) {
			want = append(want, key)
		}
	}
	got, err := scan(m.t.Context(), m.store, prefix)
	if err != nil || len(got) != len(want) {
		rt.Fatalf("Scan(%q): got %d items, %v, want %d", prefix, len(got), err, len(want))
	}
	for i, key := range want {
		if d := difference(got[i], m.items[key]); d != "" {
			rt.Fatalf("Scan(%q): item %d: %s", prefix, i, d)
		}
	}
}

// difference says how got differs from want; empty if it does not.
func difference(got, want kvstore.Item) string {
	switch {
	case got.Key != want.Key:
		return fmt.Sprintf("key %q, want %q", got.Key, want.Key)
	case got.Version != want.Version:
		return fmt.Sprintf("key %q: version %d, want %d", got.Key, got.Version, want.Version)
	case string(got.Value) != string(want.Value):
		return fmt.Sprintf("key %q: %d other bytes, want %d", got.Key, len(got.Value), len(want.Value))
	}
	return ""
}
