//go:build linux

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// sources parses the module's Go files, tests left out.
func sources(t *testing.T, mode parser.Mode, each func(name string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	testenv.NeedCheckout(t)
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
		f, err := parser.ParseFile(set, name, nil, mode)
		if err == nil {
			each(name, set, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// packageComments returns the package comment of each package of the module, by its directory.
func packageComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	sources(t, parser.ParseComments|parser.PackageClauseOnly, func(name string, _ *token.FileSet, f *ast.File) {
		dir := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(name), ".."), "/")
		text := f.Doc.Text()
		if text != "" && comments[dir] != "" {
			t.Errorf("%q has two package comments", dir)
		}
		subject := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			base := filepath.Base(dir)
			subject = strings.ToUpper(base[:1]) + base[1:] + " "
		}
		if text != "" && !strings.HasPrefix(text, subject) {
			t.Errorf("the package comment of %q begins with %.20q, want %q", dir, text, subject)
		}
		comments[dir] += text
	})
	return comments
}

// TestPackageComments: each package says what it is for, in the words that go doc shows.
func TestPackageComments(t *testing.T) {
	comments := packageComments(t)
	if len(comments) < 50 {
		t.Errorf("only %d packages", len(comments))
	}
	for dir, text := range comments {
		if paragraph, _, _ := strings.Cut(text, "\n\n"); len(strings.Fields(paragraph)) < 6 {
			t.Errorf("%q has no package comment that says what it is for: %q", dir, paragraph)
		}
	}
}

// imports returns which packages of the module the files of a directory import, tests left out.
func imports(t *testing.T, dir string) (list []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own, ok := strings.CutPrefix(path, "github.com/nsrun/nsrun/")
			if ok && own != "internal/linuxonly" && !slices.Contains(list, own) {
				list = append(list, own)
			}
		}
	}
	return list
}

var saysImports = regexp.MustCompile(`(?i)(?:It|The package|This package|and) imports ((?:[^.;:]|\.\w)*)`)

// TestSaidImports: what a package comment says about imports is true.
func TestSaidImports(t *testing.T) {
	said := 0
	for dir, text := range packageComments(t) {
		m := saysImports.FindStringSubmatch(strings.ReplaceAll(text, "\n", " "))
		if strings.HasPrefix(dir, "internal/") && len(imports(t, dir)) > 0 && !strings.Contains(text, "import") && !strings.Contains(dir, "/reexec/") {
			t.Errorf("%q does not say what it imports", dir)
		}
		if m == nil || strings.HasPrefix(m[1], "nothing that") {
			continue
		}
		said++
		list := imports(t, dir)
		if strings.HasPrefix(m[1], "nothing") {
			if len(list) > 0 {
				t.Errorf("%q says that it imports nothing of this module; it imports %q", dir, list)
			}
			continue
		}
		words := strings.FieldsFunc(m[1], func(r rune) bool { return r == ' ' || r == ',' })
		for _, p := range list {
			if !slices.Contains(words, p) && !slices.Contains(words, filepath.Base(p)) {
				t.Errorf("%q imports %s, and its comment says only %q", dir, p, m[1])
			}
		}
		for _, w := range words {
			if strings.HasPrefix(w, "internal/") && !slices.Contains(list, w) {
				t.Errorf("%q does not import %s, and its comment says so", dir, w)
			}
		}
	}
	if said < 20 {
		t.Errorf("only %d packages say what they import", said)
	}
}
