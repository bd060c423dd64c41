//go:build linux

package fs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// things are what a name can stand for, with the steps that make it; N is the
// name. Those without steps are in the project.
var things = []struct{ name, steps string }{
	{"absent", "-"}, {"file", "create N 0644"}, {"dir", "mkdir N 0755"}, {"full", "mkdir N 0755; create N/in 0644"},
	{"dangling", "symlink none N"}, {"loop", "symlink N N"}, {"fifo", "fifo N 0644"}, {"device", "device N 259"},
	{"oldfile", ""}, {"olddir", ""}, {"oldfull", ""},
}

// calls are done to each thing N, which has room for M and N/in.
var calls = []string{
	"create N 0600", "mkdir N 0700", "symlink other N", "fifo N 0600", "unlink N", "rmdir N", "link N M", "readlink N", "list N",
	"trunc N 3", "chmod N 0700", "chown N 7 8", "utimes N 5000000000 6000000000", "setx N user.a 1", "setx N trusted.a 1", "access N 2", "stat N/in",
	"create N/in 0644", "create N/on 0644", "mkdir N/on 0755", "link N/in M", "rename N/in M", "rename N N", "rename N N/in", "rename N N/on",
	"rename N M", "rename2 N M 1", "rename2 N M 2", "unlink N/in", "rmdir N/in",
}

// pairs are done to each two things.
var pairs = []string{"rename A B", "rename2 A B 1", "rename2 A B 2", "link A B", "rename A B/on", "rename2 A B/in 2"}

// TestMatrix does every call to every kind of file, and to every two of them:
// each has to give the same as on ext4, and leave the same.
func TestMatrix(t *testing.T) {
	need(t, "root", os.Geteuid() == 0)
	var m matrix
	for i, thing := range things {
		for j, call := range calls {
			n := m.thing(fmt.Sprintf("%s.%d", thing.name, j), i)
			m.steps = append(m.steps, strings.NewReplacer("N", n, "M", n+".m").Replace(call))
		}
	}
	for i, a := range things {
		for j, b := range things {
			for k, call := range pairs {
				id := fmt.Sprintf("%s.%s.%d", a.name, b.name, k)
				m.steps = append(m.steps, strings.NewReplacer("A", m.thing(id+".a", i), "B", m.thing(id+".b", j)).Replace(call))
			}
		}
	}
	m.steps = append(m.steps, longNames()...)
	m.steps = append(m.steps, "tree")
	besidePlain(t, m.project, func(t *testing.T, plain, dir string) {
		want, got := m.perform(t, plain), m.perform(t, dir)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ext4 -, mount +\n%s", diff)
		}
	})
}

// A matrix is a script with the files of the project that it works on.
type matrix struct {
	project []seed
	steps   []string
}

// thing makes things[i] and returns its name.
func (m *matrix) thing(name string, i int) string {
	switch things[i].name {
	case "absent":
	case "oldfile":
		m.project = append(m.project, seed{name, 0o644, "old"})
	case "olddir":
		m.project = append(m.project, seed{name + "/", 0o755, ""})
	case "oldfull":
		m.project = append(m.project, seed{name + "/", 0o755, ""}, seed{name + "/in", 0o644, "old"})
	default:
		m.steps = append(m.steps, strings.Split(strings.ReplaceAll(things[i].steps, "N", name), "; ")...)
	}
	return name
}

// perform does the steps in dir, and returns what they gave.
func (m *matrix) perform(t *testing.T, dir string) []string {
	t.Helper()
	return strings.Split(run(t, 0, "script", append([]string{dir}, m.steps...)...), "\n")
}

// longNames are steps at the limits of names, paths and targets.
func longNames() []string {
	name, target := strings.Repeat("n", 255), strings.Repeat("t/", 2047)
	steps := []string{
		"symlink " + target + "t long", "readlink long", "symlink " + target + "tt longer",
		"mkdir deep 0755", "create deep/" + name + " 0644", "stat deep/" + name + "n",
	}
	for _, step := range []string{"unlink N", "create N 0644", "link N M", "rename N M", "unlink M", "mkdir N 0755", "rename2 N M 2", "rmdir N", "symlink x N", "fifo M 0644"} {
		exact := strings.NewReplacer("N", "deep/"+name, "M", "deep/"+name[1:]+"m")
		over := strings.NewReplacer("N", "deep/"+name+"n", "M", "deep/"+name+"m")
		half := strings.NewReplacer("N", "deep/"+name, "M", "deep/"+name+"m")
		steps = append(steps, over.Replace(step), half.Replace(step), exact.Replace(step))
	}
	return steps
}
