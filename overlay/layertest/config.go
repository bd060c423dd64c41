package layertest

import (
	"os"
	"testing"

	"github.com/wsfs/wsfs/overlay"
)

// TB is the part of testing.TB that layers are made with: a *testing.T, or the
// test of a random run.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// An Ability is what a layer declares that it can do.
type Ability uint32

const (
	Links     Ability = 1 << iota // overlay.Linker
	Xattrs                        // overlay.XattrSetter, class user
	ACLs                          // access and default ACLs
	Nodes                         // overlay.Noder, FIFOs and sockets
	Tmpfiles                      // overlay.Tmpfiler
	Redirects                     // overlay.Redirecter
	Index                         // overlay.Indexer; implies Links
	Holes                         // holes take no space
	Owners                        // files can belong to anybody

	// All are all abilities.
	All = 1<<iota - 1
)

// A Config is a layer to test.
type Config struct {
	// New returns a new, empty layer. dir is an empty directory of its own,
	// which is removed when the test ends.
	New func(t TB, dir string) overlay.Upper
	// Reopen closes u, which New or Reopen made with dir, and opens it again;
	// nil if the layer does not outlive its process.
	Reopen func(t TB, dir string, u overlay.Upper) overlay.Upper
	// Freeze returns u, which nobody changes any more, as a lower; u itself if
	// nil.
	Freeze func(t TB, dir string, u overlay.Upper) overlay.Reader

	Abilities Ability

	// Route is a directory of the layer that is always there and a segment of
	// its own, for RunOverlay: only regular files are moved across its border.
	// "" if there is none.
	Route overlay.Name
}

// can reports whether the layer declares all of a.
func (c Config) can(a Ability) bool { return c.Abilities&a == a }

// make returns a new layer and its directory.
func (c Config) make(t TB) (overlay.Upper, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "layertest-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return c.New(t, dir), dir
}

// A suite is a Config under test.
type suite struct{ Config }

// Run tests one layer.
func Run(t *testing.T, c Config) {
	s := suite{c}
	for _, test := range []struct {
		name  string
		needs Ability
		run   func(suite, *testing.T)
	}{
		{"Abilities", 0, suite.testAbilities},
		{"Names", 0, suite.testNames},
		{"Lookup", 0, suite.testLookup},
		{"ReadDir", 0, suite.testReadDir},
		{"Open", 0, suite.testOpen},
		{"Special", Nodes, suite.testSpecial},
		{"Create", 0, suite.testCreate},
		{"Perm", 0, suite.testPerm},
		{"Owner", Owners, suite.testOwner},
		{"DefaultACL", ACLs, suite.testDefaultACL},
		{"Append", 0, suite.testAppend},
		{"Unlinked", 0, suite.testUnlinked},
		{"Sparse", Holes, suite.testSparse},
		{"SetAttr", 0, suite.testSetAttr},
		{"ClearPrivileges", 0, suite.testClearPrivileges},
		{"Remove", 0, suite.testRemove},
		{"Rename", 0, suite.testRename},
		{"RenameErrors", 0, suite.testRenameErrors},
		{"RenameTree", 0, suite.testRenameTree},
		{"Exchange", 0, suite.testExchange},
		{"Link", Links, suite.testLink},
		{"Xattr", Xattrs, suite.testXattr},
		{"Tmpfile", Tmpfiles, suite.testTmpfile},
		{"Whiteout", 0, suite.testWhiteout},
		{"WhiteoutReplaced", 0, suite.testWhiteoutReplaced},
		{"WhiteoutDirectory", 0, suite.testWhiteoutDirectory},
		{"LeaveWhiteout", 0, suite.testLeaveWhiteout},
		{"Opaque", 0, suite.testOpaque},
		{"Redirect", Redirects, suite.testRedirect},
		{"CopyUp", 0, suite.testCopyUp},
		{"CopyUpRefused", 0, suite.testCopyUpRefused},
		{"CopyUpReplace", 0, suite.testCopyUpReplace},
		{"CopyUpFails", 0, suite.testCopyUpFails},
		{"CopyUpInstall", 0, suite.testCopyUpInstall},
		{"CopyUpSparse", Holes, suite.testCopyUpSparse},
		{"Index", Index, suite.testIndex},
		{"Parallel", 0, suite.testParallel},
		{"Model", 0, suite.testModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if c.can(test.needs) {
				test.run(s, t)
			}
		})
	}
}

// testAbilities checks that the layer has what it declares.
func (s suite) testAbilities(t *testing.T) {
	u, _ := s.make(t)
	_, links := overlay.As[overlay.Linker](any(u))
	_, xattrs := overlay.As[overlay.XattrSetter](any(u))
	_, nodes := overlay.As[overlay.Noder](any(u))
	_, tmp := overlay.As[overlay.Tmpfiler](any(u))
	_, redirects := overlay.As[overlay.Redirecter](any(u))
	_, index := overlay.As[overlay.Indexer](any(u))
	for _, a := range []struct {
		name string
		a    Ability
		has  bool
	}{
		{"Links", Links, links}, {"Xattrs", Xattrs, xattrs}, {"ACLs", ACLs, xattrs}, {"Nodes", Nodes, nodes},
		{"Tmpfiles", Tmpfiles, tmp}, {"Redirects", Redirects, redirects}, {"Index", Index, index && links},
	} {
		if s.can(a.a) && !a.has {
			t.Errorf("the layer declares %s and does not have its interface", a.name)
		}
	}
}
