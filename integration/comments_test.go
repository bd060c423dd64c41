package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEverythingExportedIsDocumented parses every file of every package, for
// whatever platform it is.
func TestEverythingExportedIsDocumented(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t, "linux") {
		if p.Doc == "" {
			t.Errorf("package %s has no package comment", p.ImportPath)
		}
		fset := token.NewFileSet()
		for _, file := range parseDir(t, fset, p.Dir) {
			for _, name := range undocumented(file) {
				t.Errorf("%s: %s is exported and has no comment", fset.Position(name.Pos()), name.Name)
			}
		}
	}
}

// parseDir returns the files in dir that are no tests.
func parseDir(t *testing.T, fset *token.FileSet, dir string) (files []*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// undocumented returns the exported names of file without a comment. A
// comment on a group documents all of it, and so does the type of a group of
// constants.
func undocumented(file *ast.File) (names []*ast.Ident) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			if d.Doc == nil && !ofType(d) {
				names = append(names, undocumentedSpecs(d)...)
			}
		}
	}
	return names
}

// ofType reports whether d is a group of constants that begins with one of a
// named type: its values.
func ofType(d *ast.GenDecl) bool {
	if d.Tok != token.CONST {
		return false
	}
	first, ok := d.Specs[0].(*ast.ValueSpec)
	return ok && first.Type != nil
}

// exportedReceiver reports whether d is a function, or a method of an exported
// type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		exported = exported || ok && id.IsExported()
		return !ok
	})
	return exported
}

func undocumentedSpecs(d *ast.GenDecl) (names []*ast.Ident) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if s.Doc == nil && s.Comment == nil && n.IsExported() {
					names = append(names, n)
				}
			}
		}
	}
	return names
}
