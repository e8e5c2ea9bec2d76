//go:build linux

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestRefusedCalls: calls that a filter or a file system can refuse are made through package sys, which has
// replacements. Programs that are not part of nsrun, and probes of these calls, make them directly.
func TestRefusedCalls(t *testing.T) {
	calls := []string{"Openat2", "Statx", "Renameat2", "Fsync", "Syncfs", "Getrandom"}
	own := []string{"internal/sys", "internal/testenv", "internal/differ", "features", "bench", "test"}
	through := 0
	sources(t, parser.SkipObjectResolution, func(name string, set *token.FileSet, f *ast.File) {
		for _, dir := range own {
			if strings.HasPrefix(name, "../"+dir+"/") {
				return
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(calls, s.Sel.Name) {
				return true
			}
			switch x, _ := s.X.(*ast.Ident); {
			case x != nil && x.Name == "sys":
				through++
			case x != nil && x.Name == "unix":
				t.Errorf("%v: %s is called without package sys", set.Position(s.Pos()), s.Sel.Name)
			}
			return true
		})
	})
	if through < 10 {
		t.Errorf("only %d calls through package sys", through)
	}
}
