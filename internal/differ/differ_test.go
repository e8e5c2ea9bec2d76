//go:build linux && !race

package differ

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestAgainstBubblewrap is the whole comparison.
func TestAgainstBubblewrap(t *testing.T) {
	testenv.NeedNamespaces(t)
	bin(t)
	t.Run("cases", func(t *testing.T) { compare(t, linesToDo(cases)) })
	t.Run("generated", func(t *testing.T) { compare(t, linesToDo(generated(t))) })
	t.Run("as nsrun", func(t *testing.T) {
		lines := generated(t)
		lines = append(lines[:min(len(lines)/4, 40)], line{args: "--ro-bind / / --info-fd 99 true"})
		for i := range lines {
			lines[i].ownName = true
		}
		compare(t, linesToDo(lines))
	})
	t.Run("life", func(t *testing.T) { compare(t, some(scenes())) })
	if testenv.Long() && flag.Lookup("test.run").Value.String() == "" && os.Getenv("NSRUN_TEST_AS_USER") == "" {
		t.Run("stale", stale)
	}
}

// some are a third of the scenes, which is each of them in some of the shapes; with NSRUN_LONG all.
func some(jobs []job) []job {
	if testenv.Long() {
		return jobs
	}
	var list []job
	for i := 0; i < len(jobs); i += 3 {
		list = append(list, jobs[i])
	}
	return list
}

// stale finds rows of the table that nothing needs.
func stale(t *testing.T) {
	for _, m := range allMeant {
		if m.hit == 0 && (!m.root || os.Geteuid() == 0) {
			t.Errorf("%s: no such difference was seen: %s, bubblewrap %s, here %s", m.name, m.key, m.real, m.ours)
		}
	}
}

// The table and the document name the same differences.
func TestDifferencesAreDocumented(t *testing.T) {
	testenv.NeedCheckout(t)
	b, err := os.ReadFile("../../docs/bwrap-differences.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			documented[name] = true
		}
	}
	for _, m := range allMeant {
		if !documented[m.name] {
			t.Errorf("docs/bwrap-differences.md has no section %q", m.name)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(b)), " "), m.reason) {
			t.Errorf("docs/bwrap-differences.md does not give the reason of %q: %s", m.name, m.reason)
		}
	}
	for name := range documented {
		used := false
		for _, m := range allMeant {
			used = used || m.name == name
		}
		if !used {
			t.Errorf("docs/bwrap-differences.md: section %q describes no intended difference", name)
		}
	}
}
