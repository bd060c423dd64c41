//go:build linux

package integration

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// originMark is the attribute that says what a file was copied from.
const originMark = "trusted.overlay.wsfs.origin"

// A damage is something wrong with a workspace that is not mounted.
type damage struct {
	// killed: the workspace was left by kill -9, with copies that are pending.
	killed bool
	// do makes the damage. state is the workspace's own directory.
	do func(t *testing.T, state, project string)
	// says is in the reports; nil if the damage is repaired, and found no more.
	says []string
	// files are the contents that differ from those of damagedFiles.
	files map[string]string
}

// What a file holds that is not there, or that gives EIO.
const gone, unreadable = "", "\x00"

const upperDir = "layers/1"

var damages = map[string]damage{
	"none":        {do: func(*testing.T, string, string) {}},
	"only killed": {killed: true, do: func(*testing.T, string, string) {}},
	"stray work files": {do: func(t *testing.T, state, _ string) {
		put(t, state, "work/new/stray", "stray\n")
		put(t, state, "work/new/dir/sub/stray", "stray\n")
	}},
	"stray work files after a kill": {killed: true, do: func(t *testing.T, state, _ string) {
		put(t, state, "work/new/stray", "stray\n")
		put(t, state, ".workspace.json-123", "{")
	}},
	"the note of the clean end is cut short": {do: func(t *testing.T, state, _ string) {
		put(t, state, "meta/1/clean", `{"version":1,"names":{"1`)
	}},
	"a pending copy is short": {
		killed: true,
		do: func(t *testing.T, state, _ string) {
			truncate(t, filepath.Join(state, upperDir, "copied"), 3)
		},
		files: map[string]string{"copied": "project\n"}, // what was appended was not synced
	},
	"a pending copy is short and its origin has changed": {
		killed: true,
		do: func(t *testing.T, state, project string) {
			truncate(t, filepath.Join(state, upperDir, "copied"), 3)
			put(t, project, "copied", "changed on the host\n")
		},
		says:  []string{`"copied" is a copy with 3 of 8 bytes`},
		files: map[string]string{"copied": "pro"},
	},
	"a pending copy is short and its origin is gone": {
		killed: true,
		do: func(t *testing.T, state, project string) {
			truncate(t, filepath.Join(state, upperDir, "copied"), 3)
			remove(t, filepath.Join(project, "copied"))
		},
		says:  []string{`"copied" is a copy with 3 of 8 bytes`},
		files: map[string]string{"copied": "pro"},
	},
	"a pending copy is gone": {
		killed: true,
		do: func(t *testing.T, state, _ string) {
			remove(t, filepath.Join(state, upperDir, "copied"))
		},
		files: map[string]string{"copied": "project\n"},
	},
	"a mark cannot be read": {
		do: func(t *testing.T, state, _ string) {
			setMark(t, filepath.Join(state, upperDir, "copied"), originMark, "\xff\xff")
		},
		says: []string{"copied", "mark"},
	},
	"a mark cannot be read after a kill": {
		killed: true,
		do: func(t *testing.T, state, _ string) {
			setMark(t, filepath.Join(state, upperDir, "copied"), originMark, "\xff\xff")
		},
		says: []string{"copied", "mark"},
	},
	"a copy made by hand has the origin of another": {
		do: func(t *testing.T, state, _ string) {
			runProgram(t, "cp", "-a", filepath.Join(state, upperDir, "copied"), filepath.Join(state, upperDir, "twice"))
		},
		says:  []string{"twice", "inode"},
		files: map[string]string{"twice": "project\nappended\n"},
	},
	"a name of a hard link is removed by hand": {
		do: func(t *testing.T, state, _ string) {
			remove(t, filepath.Join(state, upperDir, "new2"))
		},
		files: map[string]string{"new2": gone},
	},
	"all names of a copied hard link are removed by hand": {
		do: func(t *testing.T, state, _ string) {
			remove(t, filepath.Join(state, upperDir, "link1"))
		},
		says: []string{"link1"},
	},
	"a redirect leads out of the tree": {
		do: func(t *testing.T, state, _ string) {
			setMark(t, filepath.Join(state, upperDir, "dir"), "trusted.overlay.redirect", "../..")
		},
		says:  []string{"dir", "redirect"},
		files: map[string]string{"dir/copied": unreadable},
	},
}

// damagedFiles are the files of the workspace that is damaged.
var damagedFiles = map[string]string{
	"copied": "project\nappended\n", "dir/copied": "project\nappended\n", "untouched": "project\n",
	"link1": "project\nappended\n", "link2": "project\nappended\n", "new": "new\n", "new2": "new\n",
	"memory/m": "remembered\n",
}

// TestCheckDamage damages a workspace by hand: check repairs what can be
// repaired, reports the rest with exit code 3, again when it is asked again, and
// loses nothing: everything that was not damaged is there afterwards.
func TestCheckDamage(t *testing.T) {
	t.Parallel()
	need(t, "fuse", "root")
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			for _, f := range []string{"copied", "dir/copied", "untouched", "link1"} {
				put(t, project, f, "project\n")
			}
			script(t, project, "ln link1 link2")
			w := mounted(t, project)
			script(t, w.dir, `
				for f in copied dir/copied link1; do echo appended >>$f; done
				echo new >new; ln new new2; echo remembered >memory/m`)
			if d.killed {
				w.kill()
				if err := unix.Unmount(w.dir, unix.MNT_DETACH); err != nil {
					t.Fatal(err)
				}
			} else {
				w.unmount()
			}
			state := filepath.Join(w.state, "workspaces/test")
			d.do(t, state, project)
			for range 2 {
				d.check(t, w)
			}
			if left, err := os.ReadDir(filepath.Join(state, "work/new")); err != nil || len(left) > 1 {
				t.Errorf("left in the work directory: %v, %v", left, err)
			}
			w.mount()
			d.compare(t, w.dir)
		})
	}
}

// check runs wsfs check, which has to report the damage.
func (d *damage) check(t *testing.T, w *workspace) {
	t.Helper()
	cmd := command(t, "", wsfs(t), "check", "test", "--state", w.state, "--json")
	out, _ := cmd.Output() // the exit code is looked at
	var report struct {
		Clean  bool
		Damage []string
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("wsfs check --json printed %q: %v", out, err)
	}
	exit, want := cmd.ProcessState.ExitCode(), 0
	if d.says != nil {
		want = 3
	}
	if exit != want || report.Clean != (exit == 0) || report.Clean != (len(report.Damage) == 0) {
		t.Errorf("wsfs check: exit %d, %+v, want %d", exit, report, want)
	}
	for _, s := range d.says {
		if !strings.Contains(strings.Join(report.Damage, "\n"), s) {
			t.Errorf("wsfs check reports %q, want %q in it", report.Damage, s)
		}
	}
}

// compare compares the files in the mount with what must be in them.
func (d *damage) compare(t *testing.T, dir string) {
	t.Helper()
	want := make(map[string]string)
	for _, files := range []map[string]string{damagedFiles, d.files} {
		for name, content := range files {
			want[name] = content
		}
	}
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case content == gone && errors.Is(err, os.ErrNotExist), content == unreadable && errors.Is(err, unix.EIO):
		case err != nil || string(got) != content:
			t.Errorf("%s holds %q, %v, want %q", name, got, err, content)
		}
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func setMark(t *testing.T, path, attr, value string) {
	t.Helper()
	if err := unix.Lsetxattr(path, attr, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}
