package kvlayer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/overlay"
)

// sample are records of every kind.
func sample() []*record {
	at := time.Unix(-5, 123456789)
	base := record{ino: 7, uid: 1 << 31, gid: 5, rdev: 1 << 40, atime: at, mtime: at, ctime: at, origin: 9, version: 1 << 50,
		links:  []link{{1, "a"}, {2, "\xff\n"}},
		xattrs: []overlay.Xattr{{Name: "user.a", Value: []byte{0}}, {Name: "user.b", Value: []byte{}}}}
	with := func(mode uint32, change func(*record)) *record {
		r := base
		r.mode = mode
		change(&r)
		return &r
	}
	return []*record{
		with(overlay.TypeReg|0o7777, func(r *record) { r.content = content{size: 3, inline: []byte("a\x00b")} }),
		with(overlay.TypeReg, func(r *record) {
			r.content = content{size: 70_000, shift: smallShift, chunks: []digest{{1}, {}}}
		}),
		with(overlay.TypeDir|0o755, func(r *record) { r.children, r.subdirs, r.opaque, r.redirect = 3, 1, true, "x/y" }),
		with(overlay.TypeLink|0o777, func(r *record) { r.target = "../x" }),
		with(overlay.TypeFIFO, func(*record) {}),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	opt := cmp.AllowUnexported(record{}, content{}, link{})
	for _, r := range sample() {
		got, err := decodeRecord(r.ino, r.encode())
		if err != nil {
			t.Fatalf("decode of %o: %v", r.mode, err)
		}
		if diff := cmp.Diff(r, got, opt); diff != "" {
			t.Errorf("record of type %o: %s", r.typ(), diff)
		}
		for n := range r.encode() {
			if _, err := decodeRecord(r.ino, r.encode()[:n]); err == nil {
				t.Errorf("decode of the first %d bytes: got nil, want an error", n)
			}
		}
	}
}

// Whatever decodes encodes to a value that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, r := range sample() {
		f.Add(r.encode())
		f.Add(r.entry().encode())
	}
	h := head{commit: 5}
	h.seg("b").ino = 4
	h.seg("a").floor = 4
	f.Add(h.encode())
	f.Add(commitInfo{when: time.Unix(1, 2), owner: "o", touched: []touch{{link: link{1, "a"}}}}.encode())
	f.Add(Version{Op: OpRename, Path: "a/b", Size: 4}.encode())
	f.Add(ownerInfo{alive: time.Unix(1, 2), reads: []uint64{1, 2}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		again := func(what string, encoded []byte, decode func([]byte) ([]byte, error)) {
			twice, err := decode(encoded)
			if err != nil || !bytes.Equal(encoded, twice) {
				t.Errorf("%s: %x encodes to %x, and that to %x (%v)", what, b, encoded, twice, err)
			}
		}
		for what, decode := range map[string]func([]byte) ([]byte, error){
			"record":  func(b []byte) ([]byte, error) { r, err := decodeRecord(3, b); return encodeIf(r, err) },
			"entry":   func(b []byte) ([]byte, error) { e, err := decodeEntry(b); return e.encode(), err },
			"head":    func(b []byte) ([]byte, error) { h, err := decodeHead(b); return h.encode(), err },
			"commit":  func(b []byte) ([]byte, error) { c, err := decodeCommitInfo(b); return c.encode(), err },
			"version": func(b []byte) ([]byte, error) { v, err := decodeVersion(3, b); return v.encode(), err },
			"owner":   func(b []byte) ([]byte, error) { o, err := decodeOwner(b); return o.encode(), err },
		} {
			if encoded, err := decode(b); err == nil {
				again(what, encoded, decode)
			}
		}
	})
}

func encodeIf(r *record, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return r.encode(), nil
}

func FuzzACL(f *testing.F) {
	f.Add(encodeACL([]aclEntry{{aclUserObj, 7, 0}, {aclUser, 5, 3}, {aclGroupObj, 5, 0}, {aclMask, 5, 0}, {aclOther, 1, 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		acl, err := decodeACL(b)
		if err != nil {
			return
		}
		if !bytes.Equal(encodeACL(acl), b) {
			t.Errorf("%x decodes to %v", b, acl)
		}
		r := &record{mode: overlay.TypeReg}
		r.putACL(acl)
		r.chmodACL()
	})
}

// No key of a segment begins with the prefix of another one's, whatever they
// are called (fault 30).
func TestKeysOfSegmentsAreApart(t *testing.T) {
	t.Parallel()
	ids := []string{"", "a", "a/b", "a:b", ".", "..", "%2F", "é", "e\u0301", "n", "s", "\x00", "\x00\x01", "s\x00\x01a", strings.Repeat("x", 300)}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.SampledFrom(ids), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
		ns1, seg1, ns2, seg2 := id.Draw(t, "ns1"), id.Draw(t, "seg1"), id.Draw(t, "ns2"), id.Draw(t, "seg2")
		if ns1 == ns2 && seg1 == seg2 {
			return
		}
		k1, err1 := newKeys(ns1, seg1)
		k2, err2 := newKeys(ns2, seg2)
		if err1 != nil || err2 != nil {
			t.Fatalf("newKeys: %v, %v", err1, err2)
		}
		if strings.HasPrefix(k1.seg, k2.seg) || strings.HasPrefix(string(k1.head), k2.seg) {
			t.Errorf("(%q, %q) and (%q, %q) overlap", ns1, seg1, ns2, seg2)
		}
		if (k1.head == k2.head) != (ns1 == ns2) {
			t.Errorf("heads of %q and %q", ns1, ns2)
		}
	})
	if _, err := newKeys(strings.Repeat("x", 2000), ""); err == nil {
		t.Errorf("newKeys of 2,000 bytes: got nil, want an error")
	}
}
