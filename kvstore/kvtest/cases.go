package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
)

var cases = []testCase{
	{"GetPutDelete", testGetPutDelete},
	{"EmptyValue", testEmptyValue},
	{"ValueIsOnesOwn", testValueIsOnesOwn},
	{"HostileKeys", testHostileKeys},
	{"PrefixIsExact", testPrefixIsExact},
	{"ScanStops", testScanStops},
	{"ScanOfOneMoment", testScanOfOneMoment},
	{"ScanMany", testScanMany},
	{"Check", testCheck},
	{"CheckOfAbsence", testCheckOfAbsence},
	{"ConflictWritesNothing", testConflictWritesNothing},
	{"OrderInBatch", testOrderInBatch},
	{"EmptyBatch", testEmptyBatch},
	{"VersionsGrow", testVersionsGrow},
	{"Sizes", testSizes},
	{"LongValuesReplaced", testLongValuesReplaced},
	{"TooLarge", testTooLarge},
	{"LargestBatch", testLargestBatch},
	{"EmptyKey", testEmptyKey},
	{"Canceled", testCanceled},
	{"Closed", testClosed},
	{"ClosedInUse", testClosedInUse},
	{"Bank", testBank},
	{"Counter", testCounter},
}

func testGetPutDelete(t *testing.T, s kvstore.Store) {
	wantGone(t, s, "a")
	put(t, s, "a", "1")
	if got := get(t, s, "a"); string(got.Value) != "1" {
		t.Errorf("Get(a) after Put: got %q, want 1", got.Value)
	}
	put(t, s, "a", "22")
	if got := get(t, s, "a"); string(got.Value) != "22" {
		t.Errorf("Get(a) after second Put: got %q, want 22", got.Value)
	}
	wantGone(t, s, "aa")
	remove(t, s, "a")
	wantGone(t, s, "a")
	remove(t, s, "a") // a second time is no error
	remove(t, s, "never there")
	wantScan(t, s, "")
}

func testEmptyValue(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "")
	if got := get(t, s, "a"); len(got.Value) != 0 {
		t.Errorf("Get(a): got %q, want an empty value", got.Value)
	}
	wantScan(t, s, "", "a")
	apply(t, s, func(b *kvstore.Batch) { b.Put("b", nil) })
	if got := get(t, s, "b"); len(got.Value) != 0 {
		t.Errorf("Get(b): got %q, want an empty value", got.Value)
	}
}

// testValueIsOnesOwn changes slices that went in and came out.
func testValueIsOnesOwn(t *testing.T, s kvstore.Store) {
	value := []byte("value")
	apply(t, s, func(b *kvstore.Batch) { b.Put("a", value) })
	value[0] = 'X'
	got := get(t, s, "a").Value
	if string(got) != "value" {
		t.Fatalf("Get(a) after the caller changed its slice: got %q, want value", got)
	}
	got[0] = 'Y'
	items, err := scan(t.Context(), s, "")
	if err != nil || len(items) != 1 || string(items[0].Value) != "value" {
		t.Fatalf("Scan after the caller changed what Get returned: got %v, %v, want value", items, err)
	}
	items[0].Value[0] = 'Z'
	if got := get(t, s, "a").Value; string(got) != "value" {
		t.Fatalf("Get(a) after the caller changed what Scan passed: got %q, want value", got)
	}
}

// hostile are keys that a backend might take for something else: patterns,
// separators, escapes, numbers, reserved names, text that is not UTF-8.
var hostile = []kvstore.Key{
	"\x00", "\x00\x00", "\x00a", " ", "!badger!", "!badger!txn", "%", "%00", "%_", "'", "' OR 1=1 --", "*",
	"-", "..", "/", "//", "0", "00", "?", "A", "[", "[a-z]", "\\", "\\*", "]", "_", "a", "a\x00", "a\x00b", "a%", "a*",
	"a/", "a/b", "a?b", "a[b]", "a\\b", "ab", "a\xff", "a\xff\xff", "b", "d", "p", "m", "mv", "nul\x00nul", "{a}", "~",
	"\u00e9", "e\u0301", "\xc3", "\xfe", "\xff", "\xff\xff", "\xff\xff\xff",
	kvstore.Key(strings.Repeat("k", kvstore.MaxKey)), kvstore.Key(strings.Repeat("\xff", kvstore.MaxKey)),
}

func testHostileKeys(t *testing.T, s kvstore.Store) {
	apply(t, s, func(b *kvstore.Batch) {
		for i, key := range hostile {
			b.Put(key, fmt.Appendf(nil, "value %d", i))
		}
	})
	for i, key := range hostile {
		if got, want := string(get(t, s, key).Value), fmt.Sprintf("value %d", i); got != want {
			t.Errorf("Get(%.40q): got %q, want %q", key, got, want)
		}
	}
	sorted := slices.Sorted(slices.Values(hostile))
	wantScan(t, s, "", sorted...)
	for _, key := range hostile {
		remove(t, s, key)
		wantGone(t, s, key)
	}
	wantScan(t, s, "")
}

func testPrefixIsExact(t *testing.T, s kvstore.Store) {
	apply(t, s, func(b *kvstore.Batch) {
		for _, key := range hostile {
			b.Put(key, nil)
		}
	})
	sorted := slices.Sorted(slices.Values(hostile))
	for _, prefix := range append(hostile, "n", "nul", "zzz", "\xff\xff\xff\xff") {
		var want []kvstore.Key
		for _, key := range sorted {
			if strings.HasPrefix(string(key), string(prefix)) {
				want = append(want, key)
			}
		}
		wantScan(t, s, prefix, want...)
	}
}

func testScanStops(t *testing.T, s kvstore.Store) {
	for _, key := range []kvstore.Key{"a", "b", "c"} {
		put(t, s, key, "")
	}
	stop := errors.New("stop")
	var seen []kvstore.Key
	err := s.Scan(t.Context(), "", func(item kvstore.Item) error {
		seen = append(seen, item.Key)
		if item.Key == "b" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || len(seen) != 2 {
		t.Errorf("Scan with a function that fails at b: got %v after %q, want its error after a, b", err, seen)
	}
}

// testScanOfOneMoment changes what is ahead of a running scan and behind it.
func testScanOfOneMoment(t *testing.T, s kvstore.Store) {
	const n = 300
	name := func(i int) kvstore.Key { return kvstore.Key(fmt.Sprintf("k%04d", i)) }
	apply(t, s, func(b *kvstore.Batch) {
		for i := range n {
			b.Put(name(i), []byte("old"))
		}
	})
	begun, changed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-begun
		var b kvstore.Batch
		for i := range n {
			b.Put(name(i), []byte("new"))
		}
		b.Delete(name(n - 1))
		b.Put("k9999", []byte("new"))
		changed <- s.Apply(t.Context(), &b)
	}()
	seen := 0
	err := s.Scan(t.Context(), "k", func(item kvstore.Item) error {
		if seen == 0 {
			close(begun)
			if err := <-changed; err != nil {
				return err
			}
		}
		seen++
		if string(item.Value) != "old" {
			return fmt.Errorf("item %d, key %q, is %q", seen, item.Key, item.Value)
		}
		return nil
	})
	if err != nil || seen != n {
		t.Errorf("Scan with a change in the middle: got %d items, %v, want the %d old ones", seen, err, n)
	}
	if items, err := scan(t.Context(), s, "k"); err != nil || len(items) != n || string(items[0].Value) != "new" {
		t.Errorf("Scan after it: got %d items, %v, want %d new ones", len(items), err, n)
	}
}

func testScanMany(t *testing.T, s kvstore.Store) {
	const n = 20_000
	for start := 0; start < n; start += 5000 {
		apply(t, s, func(b *kvstore.Batch) {
			for i := start; i < start+5000; i++ {
				b.Put(kvstore.Key(fmt.Sprintf("many/%06d", (i*7919)%n)), fmt.Appendf(nil, "%d", i))
			}
		})
	}
	next := 0
	err := s.Scan(t.Context(), "many/", func(item kvstore.Item) error {
		if want := kvstore.Key(fmt.Sprintf("many/%06d", next)); item.Key != want {
			return fmt.Errorf("item %d is %q", next, item.Key)
		}
		next++
		return nil
	})
	if err != nil || next != n {
		t.Errorf("Scan of %d items: got %d, %v", n, next, err)
	}
}

func testCheck(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "1")
	v := get(t, s, "a").Version
	var b kvstore.Batch
	b.Check("a", v)
	b.Put("a", []byte("2"))
	wantApply(t, s, &b, nil)
	wantApply(t, s, &b, kvstore.ErrConflict)
	if got := get(t, s, "a"); string(got.Value) != "2" || got.Version <= v {
		t.Errorf("Get(a): got %q, version %d, want 2 and a version over %d", got.Value, got.Version, v)
	}
	var only kvstore.Batch
	only.Check("a", get(t, s, "a").Version)
	wantApply(t, s, &only, nil)
	only.Check("a", v)
	wantApply(t, s, &only, kvstore.ErrConflict)
}

func testCheckOfAbsence(t *testing.T, s kvstore.Store) {
	var b kvstore.Batch
	b.Check("a", 0)
	b.Put("a", []byte("mine"))
	wantApply(t, s, &b, nil)
	wantApply(t, s, &b, kvstore.ErrConflict)
	v := get(t, s, "a").Version
	remove(t, s, "a")
	var stale kvstore.Batch
	stale.Check("a", v)
	wantApply(t, s, &stale, kvstore.ErrConflict)
	wantApply(t, s, &b, nil)
}

func testConflictWritesNothing(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "1")
	put(t, s, "gone", "1")
	var b kvstore.Batch
	b.Put("a", []byte("2"))
	b.Put("new", []byte("2"))
	b.Delete("gone")
	b.Check("other", 7) // last, and still made first
	wantApply(t, s, &b, kvstore.ErrConflict)
	wantScan(t, s, "", "a", "gone")
	if got := get(t, s, "a"); string(got.Value) != "1" {
		t.Errorf("Get(a) after a conflict: got %q, want 1", got.Value)
	}
}

func testOrderInBatch(t *testing.T, s kvstore.Store) {
	put(t, s, "b", "0")
	vb := get(t, s, "b").Version
	apply(t, s, func(b *kvstore.Batch) {
		b.Put("a", []byte("1"))
		b.Delete("a")
		b.Put("a", []byte("3"))
		b.Put("b", []byte("1"))
		b.Delete("b")
		b.Check("b", vb) // of what was there before the batch
	})
	if got := get(t, s, "a"); string(got.Value) != "3" {
		t.Errorf("Get(a) after put, delete, put in a batch: got %q, want 3", got.Value)
	}
	wantGone(t, s, "b")
}

func testEmptyBatch(t *testing.T, s kvstore.Store) {
	wantApply(t, s, &kvstore.Batch{}, nil)
	wantScan(t, s, "")
}

func testVersionsGrow(t *testing.T, s kvstore.Store) {
	var last uint64
	for i := range 50 {
		put(t, s, "a", "same")
		v := get(t, s, "a").Version
		if v <= last {
			t.Fatalf("version after put %d: got %d, want over %d", i, v, last)
		}
		last = v
		items, err := scan(t.Context(), s, "a")
		if err != nil || len(items) != 1 || items[0].Version != v {
			t.Fatalf("Scan: got %v, %v, want version %d as Get says", items, err, v)
		}
		if i%3 == 0 {
			remove(t, s, "a")
		}
	}
}

// sizes are lengths around which a backend might store a value in another way.
var sizes = []int{
	0, 1, 63, 64, 1023, 1024, 4095, 4096, 65535, 65536, 1<<20 - 1025, 1<<20 - 1024, 1<<20 - 1023, 1<<20 - 1,
	1 << 20, 1<<20 + 1, 2<<20 - 2049, 2<<20 - 2048, 2<<20 - 2047, kvstore.MaxValue - 1, kvstore.MaxValue,
}

// pattern returns n bytes that differ from those of another salt.
func pattern(n int, salt byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i>>8) ^ byte(i)*31 ^ salt
	}
	return p
}

func testSizes(t *testing.T, s kvstore.Store) {
	for i, n := range sizes {
		key := kvstore.Key(fmt.Sprintf("size/%03d", i))
		apply(t, s, func(b *kvstore.Batch) { b.Put(key, pattern(n, byte(i))) })
		if got := get(t, s, key).Value; !bytes.Equal(got, pattern(n, byte(i))) {
			t.Errorf("Get of a value of %d bytes: got %d other bytes", n, len(got))
		}
	}
	i := 0
	err := s.Scan(t.Context(), "size/", func(item kvstore.Item) error {
		if !bytes.Equal(item.Value, pattern(sizes[i], byte(i))) {
			return fmt.Errorf("value %d has %d other bytes, want %d", i, len(item.Value), sizes[i])
		}
		i++
		return nil
	})
	if err != nil || i != len(sizes) {
		t.Errorf("Scan of values of all sizes: got %d, %v, want %d", i, err, len(sizes))
	}
}

func testLongValuesReplaced(t *testing.T, s kvstore.Store) {
	for i, n := range []int{kvstore.MaxValue, 1, 1 << 20, kvstore.MaxValue, 1<<20 + 5, 0, kvstore.MaxValue} {
		apply(t, s, func(b *kvstore.Batch) { b.Put("a", pattern(n, byte(i))) })
		if got := get(t, s, "a").Value; !bytes.Equal(got, pattern(n, byte(i))) {
			t.Fatalf("Get after replacing by %d bytes: got %d other bytes", n, len(got))
		}
		if i == 3 {
			remove(t, s, "a")
			wantGone(t, s, "a")
		}
		wantScan(t, s, "", slices.Repeat([]kvstore.Key{"a"}, map[bool]int{true: 0, false: 1}[i == 3])...)
	}
}

func testTooLarge(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "1")
	long := kvstore.Key(strings.Repeat("k", kvstore.MaxKey+1))
	big := make([]byte, kvstore.MaxValue)
	bad := map[string]func(b *kvstore.Batch){
		"key put":     func(b *kvstore.Batch) { b.Put(long, nil) },
		"key deleted": func(b *kvstore.Batch) { b.Delete(long) },
		"key checked": func(b *kvstore.Batch) { b.Check(long, 0) },
		"value":       func(b *kvstore.Batch) { b.Put("b", make([]byte, kvstore.MaxValue+1)) },
		"batch": func(b *kvstore.Batch) {
			for i := range kvstore.MaxBatch/kvstore.MaxValue + 1 {
				b.Put(kvstore.Key(fmt.Sprint(i)), big)
			}
		},
		"operations": func(b *kvstore.Batch) {
			for i := range kvstore.MaxOps + 1 {
				b.Put(kvstore.Key(fmt.Sprint(i)), nil)
			}
		},
	}
	for name, build := range bad {
		var b kvstore.Batch
		b.Put("a", []byte("2"))
		build(&b)
		if err := s.Apply(t.Context(), &b); !errors.Is(err, kvstore.ErrTooLarge) {
			t.Errorf("Apply of too large a %s: got %v, want ErrTooLarge", name, err)
		}
	}
	if _, err := s.Get(t.Context(), long); !errors.Is(err, kvstore.ErrTooLarge) {
		t.Errorf("Get of too long a key: got %v, want ErrTooLarge", err)
	}
	wantScan(t, s, "", "a")
	if got := get(t, s, "a"); string(got.Value) != "1" {
		t.Errorf("Get(a) after refused batches: got %q, want 1", got.Value)
	}
}

// testLargestBatch applies batches that are just within the limits: few long
// values, many short ones, and the removal of both.
func testLargestBatch(t *testing.T, s kvstore.Store) {
	var long kvstore.Batch
	for i, left := 0, kvstore.MaxBatch; left > 0; i++ {
		key := kvstore.Key(fmt.Sprintf("long/%d", i))
		n := min(left-len(key), kvstore.MaxValue)
		long.Put(key, pattern(n, byte(i)))
		left -= len(key) + n
	}
	wantApply(t, s, &long, nil)
	wantApply(t, s, &long, nil)
	var many, none kvstore.Batch
	for i := range kvstore.MaxOps {
		key := kvstore.Key(fmt.Sprintf("many/%0*d", 195, i))
		many.Put(key, pattern(kvstore.MaxBatch/kvstore.MaxOps-len(key), byte(i)))
		none.Delete(key)
	}
	wantApply(t, s, &many, nil)
	if items, err := scan(t.Context(), s, "many/"); err != nil || len(items) != kvstore.MaxOps {
		t.Errorf("Scan after a batch of %d: got %d, %v", kvstore.MaxOps, len(items), err)
	}
	wantApply(t, s, &none, nil)
	wantScan(t, s, "many/")
	for _, op := range long.Ops {
		if got := get(t, s, op.Key).Value; !bytes.Equal(got, op.Value) {
			t.Errorf("Get(%q): got %d other bytes, want %d", op.Key, len(got), len(op.Value))
		}
	}
}

func testEmptyKey(t *testing.T, s kvstore.Store) {
	if _, err := s.Get(t.Context(), ""); !errors.Is(err, kvstore.ErrEmptyKey) {
		t.Errorf("Get of the empty key: got %v, want ErrEmptyKey", err)
	}
	var b kvstore.Batch
	b.Put("", nil)
	wantApply(t, s, &b, kvstore.ErrEmptyKey)
}

func testCanceled(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with a canceled context: got %v, want Canceled", err)
	}
	if _, err := scan(ctx, s, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan with a canceled context: got %v, want Canceled", err)
	}
	var b kvstore.Batch
	b.Put("a", []byte("2"))
	if err := s.Apply(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply with a canceled context: got %v, want Canceled", err)
	}
	if got := get(t, s, "a"); string(got.Value) != "1" {
		t.Errorf("Get(a) after a canceled Apply: got %q, want 1", got.Value)
	}
}

func testClosed(t *testing.T, s kvstore.Store) {
	put(t, s, "a", "1")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: got %v, want nil", err)
		}
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Get after Close: got %v, want ErrClosed", err)
	}
	if _, err := scan(t.Context(), s, ""); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Scan after Close: got %v, want ErrClosed", err)
	}
	var b kvstore.Batch
	b.Put("a", nil)
	wantApply(t, s, &b, kvstore.ErrClosed)
	if w, ok := s.(kvstore.Watcher); ok {
		if err := w.Watch(t.Context(), "", nil, func(kvstore.Key) {}); !errors.Is(err, kvstore.ErrClosed) {
			t.Errorf("Watch after Close: got %v, want ErrClosed", err)
		}
	}
}
