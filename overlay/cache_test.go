package overlay

import "testing"

// TestCacheHoldsNoOrphans puts directories below ones that the cache does not
// hold: a change of those would never reach them.
func TestCacheHoldsNoOrphans(t *testing.T) {
	t.Parallel()
	always := func() bool { return true }
	root := &merged{name: Root}
	fresh := func(parent *merged, name Name) *merged { return &merged{name: name, parent: parent} }

	c := newCache()
	c.put(0, "a/b", fresh(fresh(root, "a"), "a/b"), always)
	if c.get(0, "a/b") != nil {
		t.Error("a directory below one that was never remembered is remembered")
	}

	a := fresh(root, "a")
	c.put(0, "a", a, always)
	c.kill(0, "a")
	c.put(0, "a", fresh(root, "a"), always)
	c.put(0, "a/b", fresh(a, "a/b"), always)
	if c.get(0, "a/b") != nil {
		t.Error("a directory below one that was changed since is remembered")
	}

	a = c.get(0, "a")
	c.put(0, "a/b", fresh(a, "a/b"), always)
	if c.get(0, "a/b") == nil {
		t.Error("a directory below a remembered one is not remembered")
	}
	c.kill(0, "a")
	if c.get(0, "a/b") != nil {
		t.Error("a directory below a changed one is still remembered")
	}
}
