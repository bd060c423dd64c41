//go:build linux

package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsfs/wsfs/fs"
)

// project is what the mounts of TestFiles show, and what is copied to ext4 for
// comparison.
var project = []seed{
	{"f", 0o644, "lower"},
	{"g", 0o755, "lower too"},
	{"dir/", 0o755, ""},
	{"dir/x", 0o644, "x"},
	{"dir/sub/", 0o755, ""},
	{"dir/sub/y", 0o600, "y"},
}

// filePlays are compared with the same on ext4. They are of one process as
// root.
var filePlays = map[string]string{
	"removed file, written before":  "create n 0644; write n data; open a n rw; unlink n; fread a; fwrite a 12345678; fread a; fchmod a 0600; fstat a; ftrunc a 3; fread a; fsync a; fchown a 5 6; fstat a; stat n; close a; list .",
	"removed file of the project":   "open a f r; unlink f; fread a; fchmod a 0600; fchown a 1 2; fstat a; fread a; stat f; close a; list .",
	"removed project file, written": "open a f rw; unlink f; fwrite a 123; fread a; ftrunc a 2; fread a; fstat a; create f 0644; stat f; read f; fread a; close a",
	"removed and only read":         "create n 0644; write n data; open a n r; unlink n; fchmod a 0600; fstat a; fread a; utimes f 5 6; close a",
	"removed path descriptor":       "create n 0640; open a n path; unlink n; fstat a; mkdir m 0750; open b m path; rmdir m; fstat b; close a; close b",
	"replaced by rename":            "create n 0644; write n new; open a f r; rename n f; fread a; read f; fstat a; stat f; close a; list .",
	"file without a name":           "tmpfile a . 0640; fwrite a hello; fstat a; flink a named; fstat a; read named; stat named; fwrite a more; read named; unlink named; fstat a; close a; tmpfile b dir 0600; fwrite b x; close b; list dir",
	"hard links":                    "create a 0644; write a 1; link a b; write b 2; stat a; stat b; read a; unlink a; read b; stat b; link b dir/c; chmod dir/c 0600; stat b; rename b b2; write b2 3; read dir/c; rename dir/c b2; stat b2; stat dir/c; list .; list dir",
	"hard links of the project":     "link f f2; stat f; write f2 more; read f; unlink f; read f2; stat f2; link f2 f; read f; stat f",
	"renamed directories":           "mkdir a 0755; mkdir a/b 0755; create a/b/f 0644; write a/b/f 1; open h a/b/f rw; rename a z; read z/b/f; write z/b/f 2; stat a/b/f; fread h; fstat h; list z/b; rename z/b/f z/f; read z/f; fwrite h 99; read z/f; close h; rename dir dir2; read dir2/sub/y; write dir2/sub/y 2; stat dir/x; list dir2; rename dir2/sub dir2/sup; read dir2/sup/y; mkdir dir 0700; list dir",
	"exchange":                      "mkdir a 0755; create a/f 0644; write a/f 1; create b 0644; write b 2; rename2 a b 2; read b/f; read a; rename2 a none 2; rename2 f b 1; rename2 f new 1; list .; rename2 b dir 2; read dir/f; read b/sub/y",
	"rename over":                   "mkdir a 0755; mkdir b 0755; create b/f 0644; rename a b; unlink b/f; rename a b; list .; create c 0644; rename c b; rename b c; rename dir/sub dir; rename dir dir/sub/z; rename f f; read f; rename none f",
	"errors":                        "mkdir dir 0755; create f 0644; rmdir f; unlink dir; rmdir dir; readlink f; stat f/x; list f; create none/x 0644; unlink none; rmdir none; link dir d2; symlink x f; rename f dir; read dir; write dir x; trunc dir 1; open a none r",
	"readers see a copy-up":         "open r f r; fread r; write f +; fread r; fstat r; chmod g 0700; open s g r; fread s; write g +; fread s; close r; close s",
	"readers see an attribute set":  "open r f r; fread r; chmod f 0600; fread r; setx f user.a 1; fread r; write f +; fread r; fstat r; close r",
	"times":                         "utimes f 123456789 1704164645123456789; stat f; touch f; utimes dir -1 -1",
	"long names":                    "create " + name255 + " 0644; stat " + name255 + "; create " + name255 + "x 0644; stat " + name255 + "x; mkdir " + name255 + "x 0755; symlink a " + name255 + "x; rename f " + name255 + "x; link f " + name255 + "x; unlink " + name255 + "x; unlink " + name255,
	"modes":                         "umask 0; create a 0666; stat a; mkdir b 0555; stat b; create b/x 0400; mkdir c 0111; rmdir c; device d 259; stat d; fifo e 07777; stat e; unlink e",
}

const name255 = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" +
	"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

// TestFiles plays on the mount what has to give the same on ext4.
func TestFiles(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	for name, steps := range filePlays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := plainDir(t)
			for _, s := range project {
				s.write(t, plain)
			}
			scenes := []scene{{0, steps}}
			want := perform(t, plain, scenes)
			for _, k := range kinds {
				for _, pass := range []bool{true, false} {
					m := mount(t, k.layer(t, project...), fs.Options{Passthrough: pass})
					if diff := cmp.Diff(want, perform(t, m.dir, scenes)); diff != "" {
						t.Errorf("%s, passthrough %v: ext4 -, mount +\n%s", k.name, pass, diff)
					}
				}
			}
		})
	}
}

// write makes s in a directory of the host.
func (s seed) write(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, s.name)
	if s.name[len(s.name)-1] == '/' {
		must(t, os.Mkdir(path, os.FileMode(s.mode)))
		return
	}
	must(t, os.WriteFile(path, []byte(s.content), os.FileMode(s.mode)))
}
