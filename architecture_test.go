//go:build linux

package nsrun_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestArchitecture: the picture of the packages in ARCHITECTURE.md and their table in docs/packages.md are made from
// mayImport and the package comments. go test -run TestArchitecture . -update rewrites them.
func TestArchitecture(t *testing.T) {
	testenv.NeedCheckout(t)
	samePart(t, "ARCHITECTURE.md", "lattice", lattice())
	samePart(t, "docs/packages.md", "packages", packageTable(t))
}

// TestRootFiles: ARCHITECTURE.md says of each file of this package what it holds.
func TestRootFiles(t *testing.T) {
	testenv.NeedCheckout(t)
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("no table of ARCHITECTURE.md has %s", name)
		}
	}
}

// samePart checks that a page has a text between two comments, or, with -update, puts it there.
func samePart(t *testing.T, name, part, text string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": begin -->\n", "<!-- "+part+": end -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no part %s", name, part)
	case old == text:
	case flag.Lookup("update").Value.String() != "true":
		t.Errorf("part %s of %s does not match the packages (-update rewrites it); want\n%s", part, name, text)
	default:
		if err := os.WriteFile(name, []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pictured are the packages of the lattice's picture: not those for tests, tools and examples, not the small ones that
// import none of the others, and not the parts of cmd/nsrun.
func pictured() []string {
	small := map[string]bool{}
	for again := true; again; {
		again = false
		for pkg, allowed := range mayImport {
			if small[pkg] || !strings.Contains(pkg, "internal/") || pkg == "internal/prog" {
				continue
			}
			if !slices.ContainsFunc(allowed, func(p string) bool { return !small[p] }) {
				small[pkg], again = true, true
			}
		}
	}
	var list []string
	for pkg := range mayImport {
		if !small[pkg] && !isTool(pkg) && !strings.HasPrefix(pkg, "cmd/nsrun/internal/") {
			list = append(list, pkg)
		}
	}
	slices.Sort(list)
	return list
}

// isTool reports whether a package is for tests, measurements, examples or making files.
func isTool(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	switch first {
	case "bench", "docs", "examples", "test":
		return true
	}
	switch pkg {
	case "internal/storm", "internal/linuxonly", "internal/differ", "internal/differ/probe", "internal/strike", "internal/testsum", "internal/reexec/image":
		return true
	}
	return slices.Contains(forTests, pkg) || strings.HasSuffix(pkg, "/gen") || strings.Contains(pkg, "/gen/")
}

// lattice is the picture: an arrow to each package that may be imported, unless a longer way leads there.
func lattice() string {
	list := pictured()
	imports := map[string][]string{}
	for _, pkg := range list {
		for _, p := range list {
			all := slices.Contains(mayImport[pkg], "*") && p != pkg && !strings.HasPrefix(p, "cmd/")
			if all || slices.Contains(mayImport[pkg], p) {
				imports[pkg] = append(imports[pkg], p)
			}
		}
	}
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(imports[from], func(p string) bool { return p == to || reaches(p, to) })
	}
	id := strings.NewReplacer("/", "_", "-", "_")
	var nodes, arrows strings.Builder
	for _, pkg := range list {
		name := cmp.Or(pkg, "nsrun")
		fmt.Fprintf(&nodes, "    %s[%s]\n", id.Replace(name), strings.TrimPrefix(name, "internal/"))
		for _, p := range imports[pkg] {
			if !slices.ContainsFunc(imports[pkg], func(q string) bool { return reaches(q, p) }) {
				fmt.Fprintf(&arrows, "    %s --> %s\n", id.Replace(name), id.Replace(cmp.Or(p, "nsrun")))
			}
		}
	}
	return "```mermaid\nflowchart TD\n" + nodes.String() + arrows.String() + "```\n"
}

// packageTable has the first sentence of each package comment.
func packageTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, tools := range []bool{false, true} {
		if tools {
			b.WriteString("\nFor tests, measurements, examples, and making files:\n\n")
		}
		b.WriteString("| package | purpose |\n|---|---|\n")
		for _, pkg := range slices.Sorted(maps.Keys(mayImport)) {
			if isTool(pkg) != tools {
				continue
			}
			name := pkg
			if pkg == "" {
				name = "nsrun"
			}
			text := synopsis(t, pkg)
			if rest, ok := strings.CutPrefix(text, "Package "); ok {
				_, rest, _ = strings.Cut(rest, " ")
				text = rest
			} else {
				_, text, _ = strings.Cut(text, " ")
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(strings.TrimRight(text, ".:"), "|", `\|`))
		}
	}
	return b.String()
}

func synopsis(t *testing.T, pkg string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(".", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			return new(doc.Package).Synopsis(f.Doc.Text())
		}
	}
	t.Errorf("%q has no package comment", pkg)
	return ""
}
