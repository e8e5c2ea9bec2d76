//go:build linux

package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// packageComments returns the package comment of each package of the module, by its directory.
func packageComments(t *testing.T) map[string]string {
	t.Helper()
	testenv.NeedCheckout(t)
	comments := map[string]string{}
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
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
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
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
