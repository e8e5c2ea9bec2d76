//go:build linux

package nsrun_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestSignatures checks that no exported identifier of a public package names an internal
// package in its signature: nobody outside of this module could write such a call, or
// declare a variable of that type.
func TestSignatures(t *testing.T) {
	testenv.NeedCheckout(t)
	var paths []string
	for pkg := range mayImport {
		if public(pkg) {
			paths = append(paths, strings.TrimSuffix(module+"/"+pkg, "/"))
		}
	}
	if len(paths) < 10 {
		t.Errorf("only %q are checked", paths)
	}
	load := loadExports(t, paths)
	for _, path := range paths {
		p, err := load.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range internalNames(p) {
			t.Error(v)
		}
	}
}

// TestSmallCmd: what only this module needs is not a field of nsexec.Cmd but one of internal/sandbox.Options.
func TestSmallCmd(t *testing.T) {
	const most = 28
	n := 0
	for f := range reflect.TypeFor[nsexec.Cmd]().Fields() {
		if f.IsExported() {
			n++
		}
	}
	if n > most {
		t.Errorf("nsexec.Cmd has %d exported fields, more than %d", n, most)
	}
}

// TestInternalNames is the control of TestSignatures: each way to name an internal package is
// found, and what only uses one behind its signature is not.
func TestInternalNames(t *testing.T) {
	testenv.Once(t)
	const in = `package in
type T int
type G[P any] struct{ F P }
const C T = 1`
	const pub = `package pub
import "example.org/m/internal/in"
func Param(in.T) {}
func Result() (_ []in.T) { return }
func Deep(map[string]func(*[2]chan in.T)) {}
func Type[P in.G[int]]() {}
func Arg() (_ G[in.T]) { return }
func Own(own) {}
var Var *in.T
const Const = in.C
type Alias = in.T
type Plain int
func (Plain) M(in.T) {}
func (*Plain) P(in.T) {}
func (Plain) hidden(in.T) {}
type S struct {
	F in.T
	hidden in.T
	embedded
	in.G[int]
}
type embedded struct{ Promoted in.T }
func (embedded) M() (_ in.T) { return }
type I interface{ M(in.T) }
type Union interface{ ~string | in.T }
type G[P any] struct{ F P }
type own struct{ F in.T }
type Fine struct{ hidden in.T }
func (f Fine) M(Fine, S, I, error) { var _ in.T }
func Body() { _ = in.C }
func unexported(in.T) {}`
	fset := token.NewFileSet()
	packages := sources{}
	for _, src := range []struct{ path, text string }{{module + "/internal/in", in}, {module + "/pub", pub}} {
		text := strings.ReplaceAll(src.text, "example.org/m", module)
		f, err := parser.ParseFile(fset, src.path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		conf := types.Config{Importer: packages}
		if packages[src.path], err = conf.Check(src.path, fset, []*ast.File{f}, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := internalNames(packages[module+"/pub"])
	want := []string{
		"pub.Alias: internal/in.T", "pub.Arg: internal/in.T", "pub.Const: internal/in.T", "pub.Deep: internal/in.T",
		"pub.I.M: internal/in.T", "pub.Own.F: internal/in.T", "pub.Param: internal/in.T", "pub.Plain.M: internal/in.T", "pub.Plain.P: internal/in.T",
		"pub.Result: internal/in.T", "pub.S.F: internal/in.T", "pub.S.G: internal/in.G", "pub.S.M: internal/in.T", "pub.S.Promoted: internal/in.T",
		"pub.Type: internal/in.G", "pub.Union: internal/in.T", "pub.Var: internal/in.T",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// sources are packages that were checked from their source.
type sources map[string]*types.Package

func (s sources) Import(path string) (*types.Package, error) { return s[path], nil }

// public reports whether programs outside of this module can import a package of it.
func public(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !slices.Contains(strings.Split(pkg, "/"), "internal") && !slices.Contains([]string{"cmd", "bench", "test", "examples"}, first) &&
		pkg != "netpolicy/cgroup/gen"
}

// loadExports returns an importer of what the compiler knows of the packages.
func loadExports(t *testing.T, paths []string) types.Importer {
	t.Helper()
	var stderr bytes.Buffer
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)
	if _, err := exec.LookPath("go"); err != nil {
		testenv.Skip(t, "go", err.Error())
	}
	list := exec.Command("go", args...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", list, err, stderr.Bytes())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, errors.New("there is no export data of " + path)
		}
		return os.Open(files[path])
	})
}

// internalNames are the exported identifiers of p whose signatures name an internal
// package, each with the first such name: "nsexec.Cmd.Path: internal/prog.Part".
func internalNames(p *types.Package) []string {
	found := map[string]bool{}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		w := signature{pkg: p, found: found, seen: map[types.Object]bool{}}
		w.object(p.Name()+"."+name, o)
	}
	return slices.Sorted(maps.Keys(found))
}

// A signature is one exported identifier that is looked through.
type signature struct {
	pkg   *types.Package
	found map[string]bool
	seen  map[types.Object]bool
}

func (w *signature) object(at string, o types.Object) {
	name, isType := o.(*types.TypeName)
	if !isType {
		w.visit(at, o.Type())
		return
	}
	if alias, ok := o.Type().(*types.Alias); ok {
		w.visit(at, alias.Rhs())
		return
	}
	w.declared(at, name)
}

// declared looks through the declaration of a type, and through its methods.
func (w *signature) declared(at string, name *types.TypeName) {
	if w.seen[name] {
		return
	}
	w.seen[name] = true
	w.visit(at, name.Type().Underlying())
	methods := types.NewMethodSet(types.NewPointer(name.Type()))
	for i := range methods.Len() {
		if m := methods.At(i).Obj(); m.Exported() {
			w.visit(at+"."+m.Name(), m.Type())
		}
	}
}

// visit looks through a type as it is written.
func (w *signature) visit(at string, t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		w.named(at, t.Obj(), t.TypeArgs())
	case *types.Named:
		w.named(at, t.Obj(), t.TypeArgs())
	case *types.TypeParam:
		w.visit(at, t.Constraint())
	case *types.Pointer:
		w.visit(at, t.Elem())
	case *types.Slice:
		w.visit(at, t.Elem())
	case *types.Array:
		w.visit(at, t.Elem())
	case *types.Chan:
		w.visit(at, t.Elem())
	case *types.Map:
		w.visit(at, t.Key())
		w.visit(at, t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(at, v.Type())
		}
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			w.visit(at, p.Constraint())
		}
		w.visit(at, t.Params())
		w.visit(at, t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			switch {
			case f.Embedded() && !f.Exported(): // its exported fields are this one's
				w.visit(at, f.Type().Underlying())
			case f.Exported():
				w.visit(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.visit(at+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			w.visit(at, e)
		}
	case *types.Union:
		for term := range t.Terms() {
			w.visit(at, term.Type())
		}
	}
}

// named looks at the name of a type, and behind it where no name can be seen from outside.
func (w *signature) named(at string, o *types.TypeName, args *types.TypeList) {
	for a := range args.Types() {
		w.visit(at, a)
	}
	switch {
	case o.Pkg() == nil: // error, any
	case slices.Contains(strings.Split(o.Pkg().Path(), "/"), "internal"):
		pkg, ok := own(o.Pkg().Path())
		if !ok {
			return // the standard library's
		}
		w.found[fmt.Sprintf("%s: %s.%s", at, pkg, o.Name())] = true
	case o.Pkg() == w.pkg && !o.Exported():
		w.declared(at, o)
	}
}
