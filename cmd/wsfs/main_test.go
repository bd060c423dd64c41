package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/wsfs/wsfs"
)

// TestUsage: what is wrong with a command line is named, and nothing is tried.
func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		code int
		err  string
	}{
		{"mount", exitUsage, "MOUNTPOINT is missing"},
		{"mount /a /b", exitUsage, `unexpected argument "/b"`},
		{"mount /a --nosuch", exitUsage, "--nosuch"},
		{"mount /a", exitUsage, "--foreground"},
		{"mont /a", exitUsage, `"mont"`},
		{"umount", exitUsage, "MOUNTPOINT is missing"},
		{"check", exitUsage, "NAME is missing"},
		{"check nobody --state /nonexistent/wsfs", exitFailed, "no such workspace"},
		{"overlay -o lowerdir=/a,squash_to_root /m", exitUsage, "squash_to_root"},
		{"version extra", exitUsage, "extra"},
	}
	for _, tt := range tests {
		root := newRootCommand()
		root.SetArgs(strings.Fields(tt.args))
		root.SetOut(new(bytes.Buffer))
		root.SetErr(new(bytes.Buffer))
		err := root.ExecuteContext(t.Context())
		if got := exitCode(err); got != tt.code || err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("wsfs %s: exit %d, error %v; want exit %d and an error with %q", tt.args, got, err, tt.code, tt.err)
		}
	}
}

func TestVersionJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root := newRootCommand()
	root.SetArgs([]string{"version", "--json"})
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var v map[string]string
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || v["version"] == "" {
		t.Errorf("version --json printed %q (%v), want an object with a version", out.String(), err)
	}
}

func TestParseHelperCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args    string
		options []string
		fake    bool
		ok      bool
	}{
		{"overlay /mnt -o rw,lowerdir=/a", []string{"rw,lowerdir=/a"}, false, true},
		{"-o lowerdir=/a overlay /mnt -n -v", []string{"lowerdir=/a"}, false, true},
		{"overlay /mnt -sf -o lowerdir=/a -o ro", []string{"lowerdir=/a", "ro"}, true, true},
		{"overlay /mnt -t fuse.wsfs -o lowerdir=/a", []string{"lowerdir=/a"}, false, true},
		{"overlay", nil, false, false},
		{"overlay /mnt more", nil, false, false},
		{"overlay /mnt -o", nil, false, false},
		{"overlay /mnt -x", nil, false, false},
	}
	for _, tt := range tests {
		c, err := parseHelperCall(strings.Fields(tt.args))
		if (err == nil) != tt.ok {
			t.Errorf("parseHelperCall(%q): error %v, want success %v", tt.args, err, tt.ok)
			continue
		}
		if tt.ok && (c.source != "overlay" || c.mountpoint != "/mnt" || !slices.Equal(c.options, tt.options) || c.fake != tt.fake) {
			t.Errorf("parseHelperCall(%q) = %+v", tt.args, c)
		}
	}
}

// TestMountDefaults: the name is the project's, the user the login name.
func TestMountDefaults(t *testing.T) {
	t.Parallel()
	f := mountFlags{config: wsfs.Config{Projects: []string{"/srv/app", "/srv/base"}, State: t.TempDir()}}
	if err := f.complete(newMountCommand()); err != nil {
		t.Fatal(err)
	}
	if f.config.Name != "app" || f.config.User == "" {
		t.Errorf("defaults: name %q, user %q; want app and the login name", f.config.Name, f.config.User)
	}
}
