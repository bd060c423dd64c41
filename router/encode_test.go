package router_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/router"
)

// hostile are ids that naive joining or normalising would confuse.
var hostile = []string{
	"", " ", "a", "A", "a/b", "a/users/b", "a:b", "a%2Fb", "a%2fb", "%", "%%", "%2", "=", "a=", ".", "..", "...", "%2E",
	"\u00e9", "e\u0301", "\x00", "a\x00", "\xff", "\xff\xfe", "shared", "users", "sessions", "global", "~", "a b", "a\nb",
	strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 300), strings.Repeat("x", 300) + "y",
	strings.Repeat("/", 85), strings.Repeat("/", 86), strings.Repeat("\u00fc", 200),
}

// ids draws an id: a hostile one, joined hostile ones, or any bytes.
func ids() *rapid.Generator[string] {
	one := rapid.SampledFrom(hostile)
	return rapid.OneOf(one,
		rapid.Custom(func(t *rapid.T) string { return one.Draw(t, "a") + one.Draw(t, "b") }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 400), func(b []byte) string { return string(b) }),
	)
}

// checkEncoding says what is wrong with the encoding of id, if anything is.
func checkEncoding(id string) string {
	enc := router.Encode(id)
	back, ok := router.Decode(enc)
	digest := strings.Contains(enc, "=")
	switch {
	case enc == "" || enc == "." || enc == ".." || strings.ContainsAny(enc, "/\x00") || len(enc) > router.MaxEncoded:
		return "not one component"
	case digest && ok:
		return "the digest form decodes"
	case !digest && (!ok || back != id):
		return "decodes to another id"
	case digest && len(id) <= router.MaxEncoded/3:
		return "digest form of a short id"
	}
	return ""
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"default": "default", "Ann.B-c_d~e@f+g": "Ann.B-c_d~e@f+g", "a/users/b": "a%2Fusers%2Fb", ".": "%2E", "..": "%2E%2E", "...": "...",
		"\u00e9": "%C3%A9", "e\u0301": "e%CC%81", "\x00": "%00", "%2F": "%252F", "a=b": "a%3Db", "": "%",
		strings.Repeat("x", 255): strings.Repeat("x", 255),
	} {
		if got := router.Encode(id); got != want {
			t.Errorf("Encode(%q): got %q, want %q", id, got, want)
		}
	}
	long := strings.Repeat("x", 256)
	if got, want := router.Encode(long), fmt.Sprintf("%s=%x", long[:190], sha256.Sum256([]byte(long))); got != want {
		t.Errorf("Encode of 256 letters x: got %q, want %q", got, want)
	}
	umlauts := strings.Repeat("\u00fc", 100) // 600 bytes encoded: the head ends with a whole escape
	if got, want := router.Encode(umlauts), strings.Repeat("%C3%BC", 31)+"%C3="; !strings.HasPrefix(got, want) {
		t.Errorf("Encode of 100 umlauts: got %q, want it to begin with %q", got, want)
	}
	for _, id := range hostile {
		if wrong := checkEncoding(id); wrong != "" {
			t.Errorf("Encode(%q) = %q: %s", id, router.Encode(id), wrong)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", ".", "..", "a/b", "%2f", "%41", "%4", "%%", "%G0", "a b", "%2E.", "a=", strings.Repeat("x", 256), "\u00e9"} {
		if id, ok := router.Decode(s); ok {
			t.Errorf("Decode(%q): got %q, want it refused: Encode never returns it", s, id)
		}
	}
}

func TestEncodeIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids().Draw(t, "a"), ids().Draw(t, "b")
		if wrong := checkEncoding(a); wrong != "" {
			t.Fatalf("Encode(%q) = %q: %s", a, router.Encode(a), wrong)
		}
		if (a == b) != (router.Encode(a) == router.Encode(b)) {
			t.Fatalf("Encode(%q) = %q, Encode(%q) = %q", a, router.Encode(a), b, router.Encode(b))
		}
	})
}

func FuzzEncode(f *testing.F) {
	for _, id := range hostile {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if wrong := checkEncoding(id); wrong != "" {
			t.Fatalf("Encode(%q) = %q: %s", id, router.Encode(id), wrong)
		}
		// Read as an encoding, any text that decodes is the id's only one.
		if back, ok := router.Decode(id); ok && router.Encode(back) != id {
			t.Fatalf("Decode(%q) = %q, which is encoded as %q", id, back, router.Encode(back))
		}
	})
}
