//go:build linux

package nsrun_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNothingCompiledAtStart: no package compiles a regular expression or a template when the program starts. Each
// start would pay for it.
func TestNothingCompiledAtStart(t *testing.T) {
	testenv.NeedCheckout(t)
	files := token.NewFileSet()
	control, err := parser.ParseFile(files, "control", "package p; var a = x.F(regexp.MustCompile(`a`)); var b = func() any { return regexp.MustCompile(`b`) }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := compiledAtStart(control); len(got) != 1 {
		t.Errorf("of the control: %v", got)
	}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bench", "test", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		for _, at := range compiledAtStart(f) {
			t.Errorf("%v", files.Position(at))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// compiledAtStart returns where the variables of a file are initialized with what is compiled.
func compiledAtStart(f *ast.File) (list []token.Pos) {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "regexp" || x.Name == "template") && strings.HasPrefix(s.Sel.Name, "Must") {
					list = append(list, s.Pos())
				}
			}
			_, later := n.(*ast.FuncLit)
			return !later
		})
	}
	return list
}
