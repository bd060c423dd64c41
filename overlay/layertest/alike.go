package layertest

import (
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsfs/wsfs/overlay"
)

// A Trial is a set of trees that should stay alike.
type Trial interface {
	// Project returns what the project is filled through, before Start.
	Project() overlay.Layer
	// Start returns the trees over the project.
	Start(t TB) []overlay.Layer
	// Freeze ends an epoch: the trees, which it returns, show what they did.
	// It is called between operations.
	Freeze(t TB) []overlay.Layer
	// End returns further views of the same tree, once nothing changes any
	// more.
	End(t TB) []overlay.Reader
}

// RunAlike does the same random operations on several trees over one project,
// as an oracle: they have to succeed and fail for the same reasons, and each
// tree has to be the model's after each. Only names, types, permissions, data
// and targets are compared, not inode numbers. abilities are those that all the
// trees have; with Links, names of one file of a lower may be copied up.
func RunAlike(t *testing.T, abilities Ability, begin func(t TB, dir string) Trial) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "layertest-")
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("%v", err)
			}
		})
		runAlike(t, abilities, begin(t, dir))
	})
}

// runAlike is one random run.
func runAlike(t *rapid.T, abilities Ability, trial Trial) {
	var done []op
	m := newModel()
	for range rapid.IntRange(0, 25).Draw(t, "project") {
		o := drawOp(t, abilities)
		m.both(t, trial.Project(), o)
		done = append(done, o)
	}
	trees := trial.Start(t)
	models := make([]*model, len(trees))
	for i := range models {
		models[i] = newModel()
		for _, o := range done {
			models[i].do(o)
		}
		models[i].share()
	}
	for range rapid.IntRange(1, 25).Draw(t, "operations") {
		if rapid.IntRange(0, 9).Draw(t, "freeze") == 0 {
			t.Logf("freeze")
			trees = trial.Freeze(t)
		} else {
			o := drawOp(t, abilities)
			t.Logf("%v", o)
			for i, tree := range trees {
				models[i].both(t, tree, o)
			}
		}
		for i, tree := range trees {
			models[i].looks(t, tree)
		}
	}
	for i, r := range trial.End(t) {
		t.Logf("final view %d", i)
		models[0].looks(t, r)
	}
}

// looks is compare without regard to inode numbers and link counts.
func (m *model) looks(t TB, l overlay.Reader) {
	t.Helper()
	m.each(func(_ overlay.Name, f *file) { f.ino, f.shared = 0, true })
	c := comparison{t: t, l: l, owner: make(map[uint64]*file), anyNumber: true}
	c.check(m)
}
