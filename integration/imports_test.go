package integration

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wsfs/wsfs"

// An importRule says what the packages of a place may import.
type importRule struct {
	// place is a package relative to the module; with a final /... also all
	// below it. The first rule that fits counts.
	place string
	// may are the module's packages it may import, in the same form.
	may []string
	// outside are the beginnings of other modules' paths it may import.
	outside []string
	reason  string
}

// importRules is the direction of imports, from the leaves up.
var importRules = []importRule{
	{"router", nil, nil, "a leaf: pure decisions, the standard library alone"},
	{"kvstore", nil, nil, "a leaf: the interface of stores, the standard library alone"},
	{"kvstore/kvlayer/...", []string{"kvstore/...", "overlay"}, nil, "a namespace of any store as a layer: it knows no backend and no mount"},
	{"kvstore/internal/...", []string{"kvstore"}, nil, "what backends share"},
	{"kvstore/badgerkv/...", []string{"kvstore", "kvstore/internal/..."}, []string{"github.com/dgraph-io", "google.golang.org/protobuf", "golang.org/x/sys"}, "a backend knows the interface and its own client, with what that is made of"},
	{"kvstore/kvtest", []string{"kvstore"}, []string{"pgregory.net/rapid", "github.com/google/go-cmp"}, "the suite of stores: it knows none of them"},
	{"kvstore/...", []string{"kvstore", "kvstore/internal/..."}, nil, "stores and their suite know the interface, not each other"},
	{"overlay", []string{"router"}, nil, "the union and the mux need names and routes; what a layer is made of is the layer's business"},
	{"overlay/layertest", []string{"overlay", "overlay/memlayer"}, []string{"golang.org/x/sys", "github.com/google/go-cmp", "pgregory.net/rapid"}, "the suite of layers: the layer in memory is the model it compares with"},
	{"overlay/...", []string{"overlay"}, []string{"golang.org/x/sys", "github.com/google/go-cmp", "pgregory.net/rapid"}, "layers and their suite know the interface, not each other"},
	{"fs/...", []string{"fs/...", "overlay"}, []string{"github.com/hanwen/go-fuse/v2", "golang.org/x/sys"}, "the only importer of go-fuse; it sees a tree, neither routes nor stores"},
	{"", []string{"router", "kvstore/...", "overlay/...", "fs/..."}, []string{"golang.org/x/sys"}, "the one place that assembles the parts"},
	{"cmd/wsfs/...", []string{"", "router"}, []string{"github.com/spf13/cobra", "golang.org/x/sys"}, "a thin command line over the root package"},
	{"integration/...", nil, nil, "tests of the binary: they see what users see"},
}

// fits reports whether pkg, relative to the module, is of place.
func fits(pkg, place string) bool {
	if base, all := strings.CutSuffix(place, "/..."); all {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	return pkg == place
}

// A listed package is what go list tells of one.
type listed struct {
	ImportPath   string
	Dir          string
	Doc          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// relative returns the package's place in the module.
func (p listed) relative() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// listPackages returns the module's packages as GOOS has them.
func listPackages(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,TestImports,XTestImports", "./...")
	cmd.Dir, cmd.Env = "..", append(cmd.Environ(), "GOOS="+goos)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list with GOOS=%s: %v", goos, err)
	}
	var pkgs []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list with GOOS=%s: %v", goos, err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportDirection(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range listPackages(t, goos) {
			i := slices.IndexFunc(importRules, func(r importRule) bool { return fits(p.relative(), r.place) })
			if i < 0 {
				t.Errorf("package %s: no rule in importRules; add one with its reason", p.relative())
				continue
			}
			for _, imported := range p.Imports {
				if !importRules[i].allows(imported) {
					t.Errorf("package %s (GOOS=%s) imports %s; the rule of %q: %s", p.relative(), goos, imported, importRules[i].place, importRules[i].reason)
				}
			}
		}
	}
}

// allows reports whether the rule lets a package import path.
func (r importRule) allows(path string) bool {
	if path == module || strings.HasPrefix(path, module+"/") {
		rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		return slices.ContainsFunc(r.may, func(place string) bool { return fits(rel, place) })
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.outside, func(begin string) bool { return fits(path, begin+"/...") })
}

// TestGoFuseStaysInFS covers tests, too: whoever needs go-fuse to test another
// package tests it through package fs.
func TestGoFuseStaysInFS(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t, "linux") {
		if fits(p.relative(), "fs/...") || fits(p.relative(), "integration/...") {
			continue // integration runs go-fuse's posixtest on the mount
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imported, "github.com/hanwen/go-fuse") {
				t.Errorf("package %s imports %s; only fs and the packages below it may", p.relative(), imported)
			}
		}
	}
}
