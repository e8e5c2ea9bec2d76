//go:build linux

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// flagsOf says which argument of a system call has the flags by which a new descriptor is not inherited.
var flagsOf = map[string]int{
	"Open": 1, "Openat": 2, "Socket": 1, "Socketpair": 1, "Eventfd": 1, "EpollCreate1": 0, "MemfdCreate": 1, "Accept4": 1,
	"InotifyInit1": 0, "OpenTree": 2, "Pipe2": 1, "FanotifyInit": 0,
}

// inherited are system calls whose new descriptors are always inherited.
var inherited = []string{"Dup", "Accept", "EpollCreate", "InotifyInit", "Pipe"}

// TestCloseOnExec: no program that an embedding program starts meanwhile gets a descriptor of nsrun's. Flags in
// variables are not looked at.
func TestCloseOnExec(t *testing.T) {
	seen := 0
	sources(t, parser.SkipObjectResolution, func(name string, set *token.FileSet, f *ast.File) {
		if strings.HasPrefix(name, "../internal/testenv/") || strings.HasPrefix(name, "../test/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			call := systemCall(c.Fun)
			for _, bad := range inherited {
				if call == bad {
					t.Errorf("%v: the descriptor of %s is inherited", set.Position(c.Pos()), call)
				}
			}
			if i, ok := flagsOf[call]; ok && i < len(c.Args) {
				closes, known := closesOnExec(c.Args[i])
				if seen++; known && !closes {
					t.Errorf("%v: the descriptor of %s is inherited", set.Position(c.Pos()), call)
				}
			}
			return true
		})
	})
	if seen < 100 {
		t.Errorf("only %d calls were found", seen)
	}
}

// systemCall returns the name of a function of package unix or syscall. Empty: it is another function.
func systemCall(fun ast.Expr) string {
	s, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); !ok || x.Name != "unix" && x.Name != "syscall" {
		return ""
	}
	return s.Sel.Name
}

// closesOnExec reports whether flags have that one; not known: they have variables.
func closesOnExec(flags ast.Expr) (closes, known bool) {
	known = true
	ast.Inspect(flags, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			closes = closes || strings.HasSuffix(n.Sel.Name, "CLOEXEC")
			return false
		case *ast.Ident:
			known = false
		}
		return true
	})
	return closes, known
}
