package router

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxEncoded is the length in bytes of the longest encoded id, so that it fits
// a component of any file system.
const MaxEncoded = 255

// digestMark stands between the head and the digest of the digest form. It is
// not a kept byte, so no other encoded id contains it.
const digestMark = "="

// headLen is how many bytes of a long id's encoding stay readable, at most.
const headLen = MaxEncoded - len(digestMark) - 2*sha256.Size

const upperHex = "0123456789ABCDEF"

// kept reports whether c stands for itself in an encoded id.
func kept(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-_.~@+", c) >= 0
}

// Encode returns id as one path component of 1 to MaxEncoded bytes that is
// neither "." nor "..". Different ids have different encodings. The encoding
// of the empty id, which stands for none, is a lone percent sign.
func Encode(id string) string {
	switch id {
	case "":
		return "%"
	case ".", "..":
		return strings.Repeat("%2E", len(id))
	}
	var b strings.Builder
	head := 0 // length of the encoding's longest beginning that fits headLen
	for i := range len(id) {
		appendByte(&b, id[i])
		if b.Len() <= headLen {
			head = b.Len()
		}
		if b.Len() > MaxEncoded {
			sum := sha256.Sum256([]byte(id))
			return b.String()[:head] + digestMark + hex.EncodeToString(sum[:])
		}
	}
	return b.String()
}

// appendByte writes the encoding of c to b.
func appendByte(b *strings.Builder, c byte) {
	if kept(c) {
		b.WriteByte(c)
		return
	}
	b.WriteByte('%')
	b.WriteByte(upperHex[c>>4])
	b.WriteByte(upperHex[c&15])
}

// Decode returns the id that encoded is the encoding of. It reports false if
// there is none, and if encoded has the digest form, which does not hold the
// whole id.
func Decode(encoded string) (id string, ok bool) {
	if encoded == "%" {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(encoded); i++ {
		c := encoded[i]
		if c == '%' && i+2 < len(encoded) {
			hi := strings.IndexByte(upperHex, encoded[i+1])
			lo := strings.IndexByte(upperHex, encoded[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			c = byte(hi<<4 | lo)
			i += 2
		}
		b.WriteByte(c)
	}
	// One id has one encoding: whatever else would decode is refused.
	if id = b.String(); Encode(id) != encoded {
		return "", false
	}
	return id, true
}
