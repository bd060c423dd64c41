package kvlayer

import (
	"encoding/binary"
	"errors"
	"time"
)

// format is the first byte of every value: the version of its encoding.
const format = 1

// errCorrupt: a value is not what an encoder of this package wrote.
var errCorrupt = errors.New("kvlayer: corrupt value")

// An encoder appends to a value. Numbers are varints, strings have their
// length before them, times are seconds and nanoseconds.
type encoder struct{ b []byte }

// newEncoder starts a value of about size bytes.
func newEncoder(size int) *encoder { return &encoder{b: append(make([]byte, 0, size+1), format)} }

func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) bytes(s []byte)  { e.uint(uint64(len(s))); e.b = append(e.b, s...) }

func (e *encoder) time(t time.Time) {
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond()))
}

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
		return
	}
	e.uint(0)
}

// A decoder takes apart what an encoder made. After the first thing that does
// not fit, err is errCorrupt and every result is zero.
type decoder struct {
	b   []byte
	err error
}

// newDecoder takes a value apart. One of another format version is corrupt: an
// older wsfs must not guess at what a newer one wrote.
func newDecoder(b []byte) *decoder {
	if len(b) == 0 || b[0] != format {
		return &decoder{err: errCorrupt}
	}
	return &decoder{b: b[1:]}
}

func (d *decoder) fail() { d.b, d.err = nil, errCorrupt }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || d.err != nil {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 || d.err != nil {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// take returns the next n bytes, which stay part of the value.
func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) bytes() []byte  { return d.take(d.uint()) }
func (d *decoder) string() string { return string(d.bytes()) }
func (d *decoder) bool() bool     { return d.uint32(1) == 1 }

// uint32 returns a number of at most limit.
func (d *decoder) uint32(limit uint32) uint32 {
	v := d.uint()
	if v > uint64(limit) {
		d.fail()
		return 0
	}
	return uint32(v)
}

func (d *decoder) time() time.Time {
	sec := d.int()
	return time.Unix(sec, int64(d.uint32(1e9-1)))
}

// count returns the number of items that follow, each of at least size bytes,
// so that a corrupt number cannot make the caller allocate.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

// end returns the decoder's error, and errCorrupt if bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail()
	}
	return d.err
}
