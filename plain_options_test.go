package wsfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlainOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want PlainConfig
		err  string // part of the error; "" for none
	}{
		{"lowerdir=/a:/b,upperdir=/u,workdir=/w", PlainConfig{Lower: []string{"/a", "/b"}, Upper: "/u", Work: "/w"}, ""},
		{"lowerdir=/a", PlainConfig{Lower: []string{"/a"}}, ""},
		{`lowerdir=/a\:b:/c\,d,ro`, PlainConfig{Lower: []string{"/a:b", "/c,d"}, ReadOnly: true}, ""},
		{`lowerdir=/a\\:/b`, PlainConfig{Lower: []string{`/a\`, "/b"}}, ""},
		{"rw,noexec,userxattr,fsname=x,lowerdir=/a", PlainConfig{Lower: []string{"/a"}, NoExec: true, UserXattr: true, FSName: "x", Ignored: []string{"rw"}}, ""},
		{"lowerdir=/a,redirect_dir=on,metacopy=off,x-systemd.automount", PlainConfig{Lower: []string{"/a"}, Ignored: []string{"redirect_dir", "metacopy", "x-systemd.automount"}}, ""},
		{"lowerdir=/a,metacopy=on", PlainConfig{}, "metacopy=on"},
		{"lowerdir=/a,squash_to_root", PlainConfig{}, `"squash_to_root"`},
		{"lowerdir=/a,uidmapping=0:10:1", PlainConfig{}, `"uidmapping"`},
		{"lowerdir=/a::/b", PlainConfig{}, "empty directory"},
		{"lowerdir=/a,upperdir=/u", PlainConfig{}, "go together"},
		{"upperdir=/u,workdir=/w", PlainConfig{}, "lowerdir is missing"},
		{"", PlainConfig{}, "lowerdir is missing"},
		{"lowerdir", PlainConfig{}, `"lowerdir"`},
	}
	for _, tt := range tests {
		got, err := ParsePlainOptions(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("ParsePlainOptions(%q): error %v, want one with %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParsePlainOptions(%q): %v", tt.text, err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("ParsePlainOptions(%q): -want +got:\n%s", tt.text, d)
		}
	}
}

// FuzzParsePlainOptions: whatever is given, no panic, and directories that are
// escaped by the rule come back as they were.
func FuzzParsePlainOptions(f *testing.F) {
	f.Add("/a", "/b")
	f.Add(`/with:colon`, `/with,comma\`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		if _, err := ParsePlainOptions(a); err == nil && !strings.Contains(a, "lowerdir=") {
			t.Errorf("ParsePlainOptions(%q) succeeded without lowerdir", a)
		}
		esc := strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`)
		got, err := ParsePlainOptions("lowerdir=" + esc.Replace(a) + ":" + esc.Replace(b))
		if want := []string{a, b}; err != nil || cmp.Diff(want, got.Lower) != "" {
			t.Errorf("lowerdir of %q: got %q, %v", want, got.Lower, err)
		}
	})
}
