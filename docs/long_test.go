//go:build linux

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestLong: a function above 80 lines, or a file above 600, says in a comment why it is long. Tests may be longer.
func TestLong(t *testing.T) {
	files, said := 0, 0
	sources(t, parser.ParseComments|parser.SkipObjectResolution, func(name string, set *token.FileSet, f *ast.File) {
		if ast.IsGenerated(f) {
			return
		}
		files++
		check := func(what string, n ast.Node, most int) {
			lines := set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
			if lines <= most {
				return
			}
			from := n.Pos()
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Doc != nil {
				from = fn.Doc.Pos()
			}
			for _, c := range f.Comments {
				if from <= c.Pos() && c.End() <= n.End() && strings.Contains(strings.Join(strings.Fields(c.Text()), " "), "is long because ") {
					said++
					return
				}
			}
			t.Errorf("%s of %s has %d lines, and no comment says that it is long because …", what, name, lines)
		}
		check("all", &ast.BlockStmt{Lbrace: f.FileStart, Rbrace: f.FileEnd - 1}, 600)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				check(fn.Name.Name, fn, 80)
			}
		}
	})
	if files < 500 || said == 0 {
		t.Errorf("%d files, %d of which say why they are long", files, said)
	}
}
