//go:build linux

package fs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsfs/wsfs/fs"
)

// A scene is what one user does.
type scene struct {
	uid   uint32
	steps string // separated by semicolons
}

// plays are compared with the same on ext4.
var plays = map[string][]scene{
	"umask": {
		{0, "mkdir d 0777; chmod d 0777"},
		{1000, "umask 0; create d/a 0666; stat d/a; mkdir d/b 0777; stat d/b; umask 077; create d/c 0666; stat d/c; mkdir d/e 0777; stat d/e; fifo d/f 0666; stat d/f; umask 0222; mkdir d/g 0777; stat d/g; create d/g/x 0600; umask 0; mkdir d/h 0555; stat d/h; rmdir d/h; symlink t d/l; stat d/l; readlink d/l"},
	},
	"owner and group": {
		{0, "mkdir d 0777; chmod d 02777; chown d 0 1001; chmod d 02777; stat d"},
		{1000, "umask 0; create d/a 0644; stat d/a; mkdir d/s 0755; stat d/s; create d/s/x 0600; stat d/s/x; create d/t 02755; stat d/t; fifo d/f 0600; stat d/f"},
	},
	"another user's write clears suid": {
		{0, "create f 0666; chmod f 06777; stat f; write f root; stat f; cap f; hascap f"},
		{1000, "write f user; stat f; hascap f"},
		{0, "chmod f 06777; stat f"},
		{1000, "overwrite f user; stat f"},
		{0, "chmod f 06777"},
		{1000, "trunc f 1; stat f"},
		{0, "chmod f 06777"},
		{1000, "fallocate f 100; stat f"},
	},
	"the owner's write clears suid": {
		{0, "mkdir d 0777; chmod d 0777"},
		{1000, "umask 0; create d/f 0755; chmod d/f 06755; stat d/f; write d/f x; stat d/f; chmod d/f 06755; trunc d/f 0; stat d/f; chmod d/f 06755; touch d/f; stat d/f; read d/f; stat d/f; chmod d/f 04755; open a d/f w; fchmod a 06755; fstat a; fwrite a zz; fstat a; fwrite a zz; ftrunc a 1; fstat a; close a; stat d/f"},
	},
	"chown clears suid": {
		{0, "create f 0755; chmod f 06755; chown f 1000 1000; stat f; chmod f 06755; stat f; mkdir d 0755; chmod d 06755; chown d 1000 1000; stat d; create g 0644; cap g; chown g 1 1; hascap g"},
		{1000, "chown f 1000 1000; stat f; chmod f 02755; stat f; chown f 1000 0; chown f 0 1000"},
	},
	"chown to nobody else clears suid": {
		{0, "mkdir d 0777; chmod d 06777; create f 0755; chown f 1000 1000; chmod f 06755; chown f -1 -1; stat f; chmod f 06755; stat f; cap f; chown f -1 -1; stat f; hascap f; chown d -1 -1; stat d; chmod f 06745; open a f r; fchown a -1 -1; fstat a"},
		{1000, "chown f -1 -1; stat f; chmod f 04755; chown f -1 -1; stat f; chmod f 04755; stat f"},
		{1001, "write f x; read f; open a f r"},
		{0, "stat f; chmod f 0666; chown f -1 1001; stat f; chown f 1001 -1; stat f"},
		{1000, "chown f -1 -1; chown f -1 1000; chown f 1000 -1"},
		{1001, "chown f -1 1001; chown f 1001 -1; chown f -1 1000; chmod f 02777; stat f"},
	},
	"private files": {
		{0, "create f 0600; write f secret; mkdir d 0700; create d/x 0644; mkdir o 0755; create o/r 0640; chown o/r 1000 1001; write o/r hi"},
		{1000, "read f; write f x; trunc f 0; chmod f 0777; utimes f 1 1; touch f; unlink f; list d; stat d/x; read d/x; read o/r; write o/r x; create o/n 0600; rename f g; access f 4; access o/r 6"},
		{1001, "read o/r; write o/r x; access o/r 4; access o/r 2"},
	},
	"sticky": {
		{0, "mkdir t 0777; chmod t 01777; stat t"},
		{1000, "umask 0; create t/a 0666; mkdir t/d 0777"},
		{1001, "unlink t/a; rmdir t/d; rename t/a t/b; write t/a x; create t/c 0644; rename t/c t/a; unlink t/c"},
		{1000, "rename t/a t/b; unlink t/b; rmdir t/d"},
	},
	"sticky, who may replace whom": {
		{0, "mkdir t 0777; chmod t 01777; mkdir own 0777; chown own 1000 1000; chmod own 01777; mkdir in 0777; chmod in 0777"},
		{1001, "umask 0; create t/b 0666; mkdir t/bd 0777; create own/b 0666; mkdir own/bd 0777; create in/b 0666; mkdir in/bd 0755"},
		{1000, "umask 0; create t/a 0666; mkdir t/ad 0777; create in/a 0666; rename t/a t/b; rename t/b t/x; rename t/ad t/bd; rename t/bd t/x; rename2 t/a t/b 2; rename in/a t/b; rename t/b in/a; link t/a t/l; unlink t/l"},
		{1000, "rename own/b own/c; rename own/bd own/cd; unlink own/c; rmdir own/cd; rename in/bd in/moved; rename in/moved t/moved; rename t/a in/b; read in/b; list t; list own; list in"},
		{1001, "create own/n 0600; unlink own/n; rename in/b own/z; rename own/z in/b; rename2 in/b t/b 2; list own; list in"},
	},
	"others' times": {
		{0, "create f 0666; chmod f 0666; create g 0644; mkdir d 0777; chmod d 0777"},
		{1000, "utimes f 1000000000 2000000000; touch f; touch g; utimes g 1 1; touch d; utimes d 1 1; write f x; create d/f 0; touch d/f; utimes d/f 5 6"},
		{1001, "touch d/f; utimes d/f 1 1; trunc d/f 0; chmod d/f 0777; chown d/f 1001 1001; link d/f d/l; unlink d/f"},
	},
	"directories in the way": {
		{0, "mkdir d 0755; mkdir d/w 0777; chmod d/w 0777; create d/w/f 0666; chmod d/w/f 0666; mkdir o 0777; chmod o 0777"},
		{1000, "umask 0; rename d/w/f o/f; rename o/f d/w/f; create d/n 0666; unlink d/w; rmdir d/w; rename d/w o/w; link d/w/f d/l; symlink x d/s; fifo d/p 0666; mkdir d/m 0777; rename d/w/f d/f"},
		{0, "chmod d 0700"},
		{1000, "stat d/w/f; read d/w/f; unlink d/w/f; link d/w/f o/l; rename o d/w/o; trunc d/w/f 0; list d; create d/w/n 0666"},
		{0, "chmod d 0744"},
		{1000, "list d; stat d/w; create d/w/n 0666; access d 1"},
		{0, "chmod d 0711"},
		{1000, "list d; stat d/w/f; create d/w/n 0666; list d/w"},
	},
	"default ACL": {
		{0, "mkdir d 0777; chmod d 0777; acl d default u::rwx,u:1001:rw-,g::r-x,m::rwx,o::---; getacl d default; stat d"},
		{1000, "umask 077; create d/f 0666; stat d/f; getacl d/f access; mkdir d/s 0777; stat d/s; getacl d/s default; getacl d/s access; write d/f hello; fifo d/p 0666; stat d/p"},
		{1001, "read d/f; write d/f x; chmod d/f 0777; list d/s; create d/s/n 0644; stat d/s/n"},
	},
	"access ACL": {
		{0, "create f 0600; chown f 1000 1000; write f data"},
		{1001, "read f"},
		{1000, "acl f access u::rw-,u:1001:r--,g::---,m::r--,o::---; stat f; getacl f access; listx f"},
		{1001, "read f; write f x; acl f access u::rw-,g::rw-,o::rw-"},
		{1000, "chmod f 0600; stat f; getacl f access"},
		{1001, "read f"},
		{1000, "chmod f 0640"},
		{1001, "read f"},
		{1000, "chmod f 02640; stat f; acl f access u::rw-,g::r--,o::r--; stat f; getacl f access"},
		{0, "chown f 1000 0; chmod f 02755; stat f"},
		{1000, "acl f access u::rwx,u:1001:r--,g::r--,m::r-x,o::r--; stat f"},
	},
	"attributes": {
		{0, "create f 0644; chown f 1000 1000; setx f user.a 1; getx f user.a; listx f; setx f trusted.b 2; getx f trusted.b; rmx f user.none; mkdir d 0755; setx d user.a 1; getx d user.a"},
		{1000, "getx f user.a; setx f user.c 3; listx f; rmx f user.a; getx f user.a; getx f trusted.b; setx f trusted.c 1; setx f system.nonsense 1; getx f system.nonsense; setx f nonsense 1; setx d user.x 1"},
		{0, "symlink f l; setx l user.a 1; setx l trusted.a 1; getx l trusted.a; fifo p 0644; setx p user.a 1; device n 259; stat n"},
	},
	"access": {
		{0, "create f 0711; mkdir d 0711; create d/x 0755; create n 0644"},
		{1000, "access f 1; access f 4; list d; stat d/x; access d/x 5; access n 1"},
		{0, "access n 1; access f 7; chmod n 0; access n 6; access n 1"},
	},
}

// TestPermissions plays what users do to each other on the mount and on ext4,
// with and without passthrough.
func TestPermissions(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	for name, scenes := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := perform(t, plainDir(t), scenes)
			for _, k := range kinds {
				for _, pass := range []bool{true, false} {
					m := mount(t, k.layer(t), fs.Options{Passthrough: pass})
					if diff := cmp.Diff(want, perform(t, m.dir, scenes)); diff != "" {
						t.Errorf("%s, passthrough %v: ext4 -, mount +\n%s", k.name, pass, diff)
					}
				}
			}
		})
	}
}

// perform plays scenes in dir and returns what happened.
func perform(t *testing.T, dir string, scenes []scene) (lines []string) {
	t.Helper()
	for _, s := range scenes {
		args := []string{dir}
		for _, step := range strings.Split(s.steps, ";") {
			args = append(args, strings.TrimSpace(step))
		}
		lines = append(lines, strings.Split(run(t, s.uid, "script", args...), "\n")...)
	}
	return lines
}

// plainDir returns a directory on an ordinary disk file system that everybody
// can reach.
func plainDir(t testing.TB) string {
	t.Helper()
	dir := openDir(t)
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	need(t, "ext4", st.Type == unix.EXT4_SUPER_MAGIC)
	return dir
}
