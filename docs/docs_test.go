//go:build linux

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWithPrograms(m, func(dir string) error {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "../cmd/...")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
		// The ordinary user's run cannot read the checkout.
		for _, name := range withTranscripts {
			b, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// A block of a page, between two lines of three backquotes.
type block struct {
	form string // what follows the first of them, such as go or console
	line int
	text string
}

func blocks(page string) (list []block) {
	var b *block
	n := 0
	for line := range strings.Lines(page) {
		n++
		form, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && b == nil:
			b = &block{form: form, line: n}
		case fence:
			list = append(list, *b)
			b = nil
		case b != nil:
			b.text += line
		}
	}
	return list
}

// pages returns all Markdown files of the module with their contents, by their names in it.
func pages(t *testing.T) map[string]string { return files(t, ".md") }

// files returns all files of the module with such names, likewise.
func files(t *testing.T, ext string) map[string]string {
	t.Helper()
	testenv.NeedCheckout(t)
	found := map[string]string{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == "testdata" || base != ".." && base[0] == '.') {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ext {
			return nil
		}
		b, err := os.ReadFile(name)
		found[strings.TrimPrefix(name, "../")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLineLength: prose has at most 120 columns; tables and code may be wider, for they cannot be wrapped. Nobody has
// wrapped a flow chart either.
func TestLineLength(t *testing.T) {
	for name, text := range pages(t) {
		n, code := 0, false
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code && strings.HasPrefix(line, "flowchart") && len(strings.Fields(line)) != 2 {
				t.Errorf("%s:%d: more than the direction of a flow chart", name, n)
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") {
				continue
			}
			if w := utf8.RuneCountInString(line); w > 120 {
				t.Errorf("%s:%d has %d columns", name, n, w)
			}
		}
	}
}

// TestCommentLength: so have comments in programs. A table in one, which gofmt does not wrap, begins with a tab.
func TestCommentLength(t *testing.T) {
	for name, text := range files(t, ".go") {
		n := 0
		for line := range strings.Lines(text) {
			n++
			comment := strings.HasPrefix(strings.TrimLeft(line, "\t"), "// ")
			if w := utf8.RuneCountInString(strings.TrimRight(line, "\n")); comment && w > 120 {
				t.Errorf("%s:%d has %d columns", name, n, w)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noWord  = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// TestLinks: what a page links to is there, with the section.
func TestLinks(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			to, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := name
			if to != "" {
				target = filepath.Join(filepath.Dir(name), to)
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if section == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(all[target], -1) {
				anchor := strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
				found = found || anchor == section
			}
			if !found {
				t.Errorf("%s: %s has no section #%s", name, target, section)
			}
		}
	}
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	flagName = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// ofOthers are flags of other programs that pages name.
var ofOthers = map[string]bool{
	"--rm": true, "--network": true, "--memory": true, "--pids-limit": true, "--cpus": true, "--security-opt": true, // docker
	"--net": true, "--private-tmp": true, "--private-dev": true, "--caps": true, "--nonewprivs": true, "--blacklist": true, // firejail
	"--read-only": true, "--read-write": true, "--whitelist": true, "--overlay-tmpfs": true,
	"--to-command":    true,                               // tar
	"--private-users": true, "--system-call-filter": true, // systemd-nspawn
}

// TestFlags: every flag that a page has in code is one of nsrun's, and after a verb one of the verb's.
func TestFlags(t *testing.T) {
	all := pages(t)
	known := flags(t)
	for name, text := range all {
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			for _, f := range flagName.FindAllStringSubmatch(m[1], -1) {
				if !known[""][f[1]] && !ofOthers[f[1]] {
					t.Errorf("%s: `%s`: nsrun has no %s", name, m[1], f[1])
				}
			}
		}
		for line := range strings.Lines(text) {
			line = strings.TrimPrefix(strings.Trim(line, "`| \n"), "$ ")
			words, ok := strings.CutPrefix(line, "nsrun ")
			if !ok {
				continue
			}
			words, _, _ = strings.Cut(words, " # ")
			words, _, _ = strings.Cut(words, " -- ")
			words, _, _ = strings.Cut(words, "`")
			verb, _, _ := strings.Cut(words, " ")
			if known[verb] == nil {
				verb = ""
			}
			for _, f := range flagName.FindAllStringSubmatch(words, -1) {
				if !known[verb][f[1]] {
					t.Errorf("%s: %s: there is no such flag: %s", name, line, f[1])
				}
			}
		}
	}
}

// flags returns the flags of each verb, and all of them, with bubblewrap's options, for the verb "".
func flags(t *testing.T) map[string]map[string]bool {
	t.Helper()
	help := func(args ...string) string {
		out, err := exec.Command(filepath.Join(testenv.Programs(), "nsrun"), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	is := map[string]map[string]bool{"": {}}
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	note := func(verb, text string) {
		for _, f := range flag.FindAllString(text, -1) {
			is[verb][f], is[""][f] = true, true
		}
	}
	note("", help("--help"))
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(help("help"), -1) {
		if m[1] != "help" {
			is[m[1]] = map[string]bool{}
			note(m[1], help("help", m[1]))
		}
	}
	if len(is) < 15 {
		t.Fatalf("nsrun help has only %d verbs", len(is))
	}
	return is
}

// TestSnippets: each block of Go is a part of an example, which is compiled and run.
func TestSnippets(t *testing.T) {
	all := pages(t)
	examples := ""
	for _, pattern := range []string{"../example_test.go", "../*/example_test.go", "../*/*/example_test.go", "../examples/*/main.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			examples += "\n" + flush(string(b))
		}
	}
	for name, text := range all {
		for _, b := range blocks(text) {
			if b.form == "go" && !strings.Contains(examples, "\n"+flush(b.text)) {
				t.Errorf("%s:%d: no example has this code", name, b.line)
			}
		}
	}
}

// flush is a text without the indentation of its lines.
func flush(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t "))
	}
	return b.String()
}

var fileName = regexp.MustCompile(`^([A-Za-z0-9_.-]+/)*[A-Za-z0-9_-]+\.(go|s|c|md|sh|in)$|` +
	`^(internal|cmd|overlay|nsexec|mounts|netpolicy|fanotify|project|features|bench|docs|examples|test)/[a-z0-9/_-]*$`)

// TestFiles: the files and directories of this module that the pages for its developers name are there.
func TestFiles(t *testing.T) {
	all := pages(t)
	if n := strings.Count(all["CONTRIBUTING.md"], "\n| a"); n < 10 {
		t.Errorf("CONTRIBUTING.md answers only %d questions", n)
	}
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "RATIONALE.md", "SECURITY.md"} {
		for _, m := range codeSpan.FindAllStringSubmatch(all[name], -1) {
			if !fileName.MatchString(m[1]) || notHere[m[1]] {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names a file that does not exist: %v", name, err)
			}
		}
	}
}

// notHere are names of files that are no part of the module.
var notHere = map[string]bool{"node_modules/": true, "build.rs": true, "doc.go": false, "objects/": true, "tx/N/objects": true}
