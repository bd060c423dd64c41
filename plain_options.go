package wsfs

import (
	"fmt"
	"slices"
	"strings"
)

// A PlainConfig says what PlainOverlay mounts. Its fields are the options of
// overlayfs (mount(8)).
type PlainConfig struct {
	// Lower are the read-only directories, the topmost first. At least one.
	Lower []string
	// Upper takes the changes, Work is an empty directory on the same file
	// system. Both empty: the mount is read-only.
	Upper string
	Work  string
	// UserXattr has marks written as user.overlay.*, as an ordinary user must.
	UserXattr bool
	ReadOnly  bool
	NoExec    bool
	// FSName is what the first column of df shows; "" is "overlay".
	FSName string
	// Ignored are options that were accepted and change nothing here, because
	// wsfs always or never does what they ask for.
	Ignored []string
}

// plainValues are the options that take a value and for which only some values
// describe what wsfs does.
var plainValues = map[string][]string{
	"redirect_dir": {"on", "follow"}, // renaming a directory always works
	"metacopy":     {"off"},          // a copy-up always takes the data along
	"nfs_export":   {"off"},
	"index":        {"on", "off"}, // hard links always stay links
	"xino":         {"on", "off", "auto"},
	"uuid":         {"on", "off", "auto", "null"},
	"verity":       {"off"},
	"fsync":        {"0", "1"},
	"threaded":     {"0", "1"},
	"static_nlink": {"0", "1"},
	"timeout":      nil, // any value
	"subtype":      nil,
	"comment":      nil,
}

// plainFlags are options without a value that are accepted and change nothing.
var plainFlags = []string{
	"rw", "defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "owner", "group",
	"exec", "nosuid", "nodev", "suid", "dev", "async", "atime", "noatime", "relatime", "norelatime", "strictatime",
	"nostrictatime", "diratime", "nodiratime", "lazytime", "nolazytime", "allow_other", "default_permissions",
	"volatile", "static_nlink", "nonempty",
}

// ParsePlainOptions reads the text of -o: options parted by commas, the
// directories of lowerdir by colons. A backslash takes a comma, a colon or a
// backslash that follows it into the name. Options that wsfs does not know, or
// that ask for what it does not do, are an error that names them.
func ParsePlainOptions(text string) (PlainConfig, error) {
	var c PlainConfig
	for _, opt := range splitEscaped(text, ',') {
		if opt == "" {
			continue
		}
		key, value, valued := strings.Cut(opt, "=")
		if err := c.set(key, value, valued); err != nil {
			return PlainConfig{}, err
		}
	}
	return c, c.check()
}

func (c *PlainConfig) set(key, value string, valued bool) error {
	switch {
	case key == "lowerdir" && valued:
		return c.setLower(value)
	case key == "upperdir" && valued:
		c.Upper = unescape(value)
	case key == "workdir" && valued:
		c.Work = unescape(value)
	case key == "fsname" && valued:
		c.FSName = unescape(value)
	case key == "userxattr" && !valued:
		c.UserXattr = true
	case key == "ro" && !valued:
		c.ReadOnly = true
	case key == "noexec" && !valued:
		c.NoExec = true
	default:
		return c.ignore(key, value, valued)
	}
	return nil
}

func (c *PlainConfig) setLower(value string) error {
	for _, dir := range splitEscaped(value, ':') {
		if dir == "" {
			return fmt.Errorf("option lowerdir=%s: an empty directory name (data-only layers, \"::\", are not supported)", value)
		}
		c.Lower = append(c.Lower, unescape(dir))
	}
	return nil
}

// ignore accepts the options that change nothing, and refuses the others.
func (c *PlainConfig) ignore(key, value string, valued bool) error {
	allowed, known := plainValues[key]
	switch {
	case strings.HasPrefix(key, "x-"), !valued && slices.Contains(plainFlags, key):
	case valued && known && allowed == nil:
	case valued && known && slices.Contains(allowed, value):
	case valued && known:
		return fmt.Errorf("option %s=%s: wsfs only does %s", key, value, strings.Join(allowed, " or "))
	case valued:
		return fmt.Errorf("unknown option %q (with value %q)", key, value)
	default:
		return fmt.Errorf("unknown option %q", key)
	}
	c.Ignored = append(c.Ignored, key)
	return nil
}

func (c *PlainConfig) check() error {
	switch {
	case len(c.Lower) == 0:
		return fmt.Errorf("option lowerdir is missing: lowerdir=DIR[:DIR]...")
	case (c.Upper == "") != (c.Work == ""):
		return fmt.Errorf("options upperdir and workdir go together: give both, or neither for a read-only mount")
	}
	return nil
}

// splitEscaped splits s at each sep that no backslash precedes. Backslashes
// stay where they are.
func splitEscaped(s string, sep byte) []string {
	var parts []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// unescape removes one level of backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
