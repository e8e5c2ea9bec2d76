//go:build linux

package nsrun_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// literals are the types that a user starts from without a constructor.
var literals = map[string][]string{
	"":          {"Approver", "Config", "Folder", "Registry", "Request", "Rule", "Spec"},
	"fanotify":  {"Options"},
	"mounts":    {"Plan"},
	"netpolicy": {"Log", "Resolver"},
	"nsexec":    {"Credential", "IDMap", "Rlimit"},
	"overlay":   {"CommitOptions", "Options", "UndoOptions"},
	"project":   {"Execution", "Filter", "Options", "Permission"},
}

// TestExampled checks that the examples of each public package show how a user starts: a constructor of each
// type that has any, and the literals.
func TestExampled(t *testing.T) {
	testenv.NeedCheckout(t)
	for pkg := range mayImport {
		if !public(pkg) {
			continue
		}
		types, shown := readExamples(t, pkg)
		for name, constructors := range types {
			if len(constructors) == 0 {
				continue
			}
			found := false
			for _, c := range constructors {
				found = found || shown[c]
			}
			if !found {
				t.Errorf("%q: no example of %s calls any of %s", pkg, name, strings.Join(constructors, ", "))
			}
		}
		for _, name := range literals[pkg] {
			if _, ok := types[name]; !ok {
				t.Errorf("%q has no type %s", pkg, name)
			}
			if !shown[name] {
				t.Errorf("%q: no example has a %s", pkg, name)
			}
		}
	}
}

// readExamples returns the exported types of a package with their constructors, and for each example the names that it
// uses: its own name, and names of the package in its code and in functions that it shares with other examples.
func readExamples(t *testing.T, pkg string) (types map[string][]string, shown map[string]bool) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(".", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	types, shown = map[string][]string{}, map[string]bool{}
	for _, name := range names {
		base := filepath.Base(name)
		if base == "stubs.go" || strings.HasSuffix(base, "_test.go") && base != "example_test.go" {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if base != "example_test.go" {
			files = append(files, f)
			continue
		}
		own := strings.TrimSuffix(f.Name.Name, "_test")
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == own {
					shown[s.Sel.Name] = true
				}
			}
			return true
		})
		for _, e := range doc.Examples(f) {
			shown[e.Name] = true
			if e.Output == "" && !e.EmptyOutput {
				t.Errorf("%q: Example%s is not run: it has no output", pkg, e.Name)
			}
		}
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+pkg)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Types {
		types[d.Name] = nil
		for _, f := range d.Funcs {
			types[d.Name] = append(types[d.Name], f.Name)
		}
	}
	return types, shown
}
