//go:build linux

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLong: a function above 80 lines, or a file above 600, says in a comment why it is long. Tests may be longer.
func TestLong(t *testing.T) {
	testenv.NeedCheckout(t)
	files, said := 0, 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == "testdata" || base != ".." && (base[0] == '.' || base[0] == '_')) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		files++
		check := func(what string, n ast.Node, most int, comments ...*ast.CommentGroup) {
			lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
			if lines <= most {
				return
			}
			for _, c := range comments {
				if strings.Contains(strings.Join(strings.Fields(c.Text()), " "), "is long because ") {
					said++
					return
				}
			}
			t.Errorf("%s of %s has %d lines, and no comment says that it is long because …", what, name, lines)
		}
		file := &ast.BlockStmt{Lbrace: f.FileStart, Rbrace: f.FileEnd - 1}
		check("all", file, 600, f.Comments...)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				comments := []*ast.CommentGroup{fn.Doc}
				for _, c := range f.Comments {
					if fn.Pos() < c.Pos() && c.End() < fn.End() {
						comments = append(comments, c)
					}
				}
				check(fn.Name.Name, fn, 80, comments...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 || said == 0 {
		t.Errorf("%d files, %d of which say why they are long", files, said)
	}
}
