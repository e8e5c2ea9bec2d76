//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestRequirements: every test that docs/requirements.md names is there, and every line names one.
func TestRequirements(t *testing.T) {
	testenv.NeedCheckout(t)
	b, err := os.ReadFile("docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("(?:`([a-z/-]+)` )?`(Test[A-Za-z0-9]+|[a-z-]+\\.txtar)`")
	sources := map[string]string{}
	source := func(dir string) string {
		if _, ok := sources[dir]; !ok {
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] += string(b)
			}
		}
		return sources[dir]
	}
	lines := 0
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || cells[1] == "---" || strings.TrimSpace(cells[1]) == "section" {
			continue
		}
		lines++
		found := named.FindAllStringSubmatch(cells[4], -1)
		if len(found) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range found {
			dir, name := m[1], m[2]
			if dir == "" {
				dir = "."
			}
			if strings.HasSuffix(name, ".txtar") {
				if _, err := os.Stat(filepath.Join("cmd/nsrun/testdata/script", name)); err != nil {
					t.Error(err)
				}
			} else if !strings.Contains(source(dir), "func "+name+"(t *testing.T)") {
				t.Errorf("%s has no %s", dir, name)
			}
		}
	}
	if lines < 70 {
		t.Errorf("only %d lines", lines)
	}
}
