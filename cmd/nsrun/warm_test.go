//go:build linux

package main

import (
	"cmp"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestWarmCaches: by what the tool itself prints, its cache is warm at the second run, and nothing of it is in the home
// directory. Another project begins with an empty cache.
func TestWarmCaches(t *testing.T) {
	lodgers(t, []string{
		"p/go.mod: module p\n\ngo 1.20\n", "p/a.go: package p\n\nfunc A() int { return 1 }\n", "p/dep/package.json: {\"name\": \"dep\", \"version\": \"1.0.0\"}",
		"other/go.mod: module p\n\ngo 1.20\n", "other/a.go: package p\n\nfunc A() int { return 1 }\n",
	}, func(l *lodger) {
		before := listing(t, l.home)
		for _, c := range []struct {
			tool       string
			look, fill string // what prints a number, and what fills the cache if that does not
			cold, warm string
		}{
			{"go", "GOFLAGS=-trimpath go build -x . 2>&1 | grep -c /compile || true", "", "1", "0"},
			{"npm", "npm cache ls | grep -c dep-1.0.0.tgz", "cd dep && npm pack --silent --offline >&2 && npm cache add ./dep-1.0.0.tgz >&2; rm -f dep-1.0.0.tgz", "0", "1"},
			{"gpg", "gpg --batch --list-keys 2>&1 | grep -c created || true", "", "3", "0"},
		} {
			if _, err := exec.LookPath(c.tool); err != nil {
				l.t.Run(c.tool, func(t *testing.T) { testenv.Skip(t, c.tool, "it is not installed") })
				continue
			}
			count := func(dir, script string, flags ...string) string {
				status, out := l.in(dir, append(append([]string{"run", "-q"}, flags...), "-c", "{ "+script+"; } 2>/dev/null; true")...)
				if status != 0 {
					l.t.Errorf("%s: status %d\n%s", c.tool, status, out)
				}
				return lastLine(out)
			}
			if got := count("p", c.look+"; "+cmp.Or(c.fill, "true"), "--discard"); got != c.cold {
				l.t.Errorf("%s, the first time: %q", c.tool, got)
			}
			for _, flag := range []string{"--discard", "--direct"} {
				if got := count("p", c.look, flag); got != c.warm {
					l.t.Errorf("%s, the second time, with %s: %q", c.tool, flag, got)
				}
			}
			if got := count("other", c.look, "--discard"); got != c.cold {
				l.t.Errorf("%s, of another project: %q", c.tool, got)
			}
			if c.tool != "go" {
				continue
			}
			if got := count("p", c.look, "--discard", "--home", "none"); got == c.warm {
				l.t.Errorf("%s is warm without a layer: %q", c.tool, got)
			}
		}
		if got := listing(t, l.home); got != before {
			l.t.Errorf("the home directory has\n%s\nnot\n%s", got, before)
		}
	})
}

func lastLine(text string) (last string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && strings.Trim(line, "0123456789") == "" {
			last = line
		}
	}
	return last
}
