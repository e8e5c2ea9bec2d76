package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// A source is a file of a package, without its tests.
type source struct {
	*ast.File
	linux bool // it is compiled on Linux only
}

// load reads the files of dir that are compiled for goos on amd64 or arm64, those for Linux without their comments.
// What generate wrote is among them for other systems than Linux.
func load(fset *token.FileSet, dir, goos string) ([]source, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var list []source
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") {
			continue
		}
		here, err := matches(dir, base, goos)
		if err != nil {
			return nil, err
		}
		if !here {
			continue
		}
		other, err := matches(dir, base, "darwin")
		if err != nil {
			return nil, err
		}
		mode := parser.SkipObjectResolution
		if other {
			mode |= parser.ParseComments
		}
		f, err := parser.ParseFile(fset, name, nil, mode)
		if err != nil {
			return nil, err
		}
		list = append(list, source{f, !other})
	}
	return list, nil
}

func matches(dir, base, goos string) (bool, error) {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = goos, "amd64", false
	return ctx.MatchFile(dir, base)
}

// imported are the packages that a file imports, by the names that it uses for them.
func imported(f *ast.File) map[string]string {
	list := make(map[string]string)
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		list[name] = path
	}
	return list
}
