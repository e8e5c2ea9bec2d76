package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkout goes to the top of the module, whose files these tests are about: `go test` runs them in it.
func checkout(t *testing.T) {
	t.Helper()
	t.Chdir("../../..")
	if _, err := os.Stat("go.mod"); err != nil {
		t.Fatal("the module's files are not here: ", err)
	}
}

func TestUpToDate(t *testing.T) {
	checkout(t)
	for _, pkg := range packages {
		want, err := generate(pkg)
		if err != nil {
			t.Errorf("%s: %v", pkg, err)
			continue
		}
		if got, _ := os.ReadFile(filepath.Join(pkg, stubs)); !bytes.Equal(got, want) {
			t.Errorf("%s does not match the files for Linux: run make generate", filepath.Join(pkg, stubs))
		}
	}
}

// TestSameAPI compares what is exported, without asking the generator how.
func TestSameAPI(t *testing.T) {
	checkout(t)
	for _, pkg := range packages {
		want := api(t, pkg, "linux")
		if len(want) == 0 {
			t.Errorf("%s exports nothing", pkg)
		}
		for _, goos := range []string{"darwin", "windows"} {
			got := api(t, pkg, goos)
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if other, ok := got[name]; !ok {
					t.Errorf("%s: %s has no %s", pkg, goos, name)
				} else if other != want[name] {
					t.Errorf("%s: %s has %s, Linux has %s", pkg, goos, other, want[name])
				}
			}
			for name := range got {
				if _, ok := want[name]; !ok {
					t.Errorf("%s: only %s has %s", pkg, goos, name)
				}
			}
		}
	}
}

// api is what a package exports, by name: the kind of it, and of functions and fields the type.
func api(t *testing.T, pkg, goos string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	files, err := load(fset, pkg, goos)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, f := range files {
		in := imported(f.File)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if recv := receiver(d); d.Name.IsExported() && (recv == "" || ast.IsExported(recv)) && !internal(d.Type, in) {
					star := ""
					if d.Recv != nil && strings.HasPrefix(text(fset, d.Recv.List[0].Type), "*") {
						star = "*"
					}
					list[recv+"."+d.Name.Name] = star + recv + "." + d.Name.Name + signature(fset, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							if name.IsExported() {
								list[name.Name] = d.Tok.String() + " " + name.Name
							}
						}
					case *ast.TypeSpec:
						if spec.Name.IsExported() {
							list[spec.Name.Name] = fmt.Sprintf("type %s %T", spec.Name.Name, spec.Type)
							fields(list, fset, spec, in)
						}
					}
				}
			}
		}
	}
	for name, what := range list {
		list[name] = strings.ReplaceAll(strings.Join(strings.Fields(replace(what)), " "), ";", "")
	}
	return list
}

// signature is the type of a function without the names of its parameters.
func signature(fset *token.FileSet, f *ast.FuncType) string {
	parts := func(l *ast.FieldList) (types []string) {
		if l == nil {
			return nil
		}
		for _, field := range l.List {
			for range max(1, len(field.Names)) {
				types = append(types, text(fset, field.Type))
			}
		}
		return types
	}
	return "(" + strings.Join(parts(f.Params), ", ") + ") (" + strings.Join(parts(f.Results), ", ") + ")"
}

// fields adds the fields of a struct and the methods of an interface.
func fields(list map[string]string, fset *token.FileSet, spec *ast.TypeSpec, in map[string]string) {
	var from *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		from = typ.Fields
	case *ast.InterfaceType:
		from = typ.Methods
	default:
		list[spec.Name.Name] += " " + text(fset, typ)
		return
	}
	for _, f := range from.List {
		if internal(f.Type, in) {
			continue
		}
		for _, name := range f.Names {
			if name.IsExported() {
				tag := ""
				if f.Tag != nil {
					tag = " " + f.Tag.Value
				}
				list[spec.Name.Name+"."+name.Name] = spec.Name.Name + "." + name.Name + " " + text(fset, f.Type) + tag
			}
		}
	}
}

// TestEmbedder runs a program that imports all packages as they are on other systems. It runs on this system: the files
// for Linux are removed, and the build constraints of the files for others are changed so that they are used.
func TestEmbedder(t *testing.T) {
	checkout(t)
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && len(d.Name()) > 1 && d.Name()[0] == '.' {
				return filepath.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".s" || strings.Contains(name, "testdata") {
			return nil
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		here, err := build.Default.MatchFile(filepath.Split(name))
		if err != nil {
			return err
		}
		there, err := matches(filepath.Dir(name), filepath.Base(name), "darwin")
		switch {
		case err != nil:
			return err
		case here && !there:
			overlay.Replace[path] = ""
		case there && !here:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
			overlay.Replace[path] = to
			return os.WriteFile(to, bytes.Replace(data, []byte("//go:build !linux\n"), nil, 1), 0o600)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("go", "run", "-overlay", list, "./internal/linuxonly/gen/testdata/embedder")
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "TMPDIR="+dir)
	out, err := run.CombinedOutput()
	if err != nil || strings.Count(string(out), "Linux only") < 9 {
		t.Errorf("%v; it does not say what is Linux only:\n%s", err, out)
	}
}
