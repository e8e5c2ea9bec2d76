package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// An event is a line of `go test -json`, see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// summary counts what ran. The zero summary is of nothing.
type summary struct {
	ran, skipped, failed int
	why                  map[string]int // skipped, by reason
}

// A key is a test while it runs.
type key struct{ pkg, test string }

// read takes all events of one `go test`, and writes to out what that would have written without -json and -v.
func (s *summary) read(events io.Reader, out io.Writer) error {
	said := map[key][]string{} // what tests that did not end yet wrote, a package by itself as the test ""
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if b := lines.Bytes(); len(b) == 0 || b[0] != '{' || json.Unmarshal(b, &e) != nil {
			fmt.Fprintf(out, "%s\n", bytes.TrimSpace(b)) // go itself has something to say
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			said[k] = append(said[k], e.Output)
		case "build-output":
			io.WriteString(out, e.Output)
		case "pass", "skip", "fail":
			if e.Test != "" {
				s.test(e, said, k)
				continue
			}
			if e.Action == "fail" {
				s.failed++
			}
			io.WriteString(out, closing(said[k], e.Action == "fail"))
			delete(said, k)
		}
	}
	return lines.Err()
}

// test counts a test that ended. What it wrote is kept only if it failed: with its package's.
func (s *summary) test(e event, said map[key][]string, k key) {
	switch e.Action {
	case "pass":
		s.ran++
	case "fail":
		s.ran++
		s.failed++
		top := key{pkg: k.pkg}
		said[top] = append(said[top], said[k]...)
	case "skip":
		if why, elsewhere := reason(said[k]); !elsewhere {
			if s.why == nil {
				s.why = map[string]int{}
			}
			s.skipped++
			s.why[why]++
		}
	}
	delete(said, k)
}

// closing is what of a package's output is shown: all of one that failed, of others the line that go test ends with.
func closing(said []string, failed bool) string {
	var b strings.Builder
	for _, line := range said {
		fields := strings.Fields(line)
		last := len(fields) > 1 && (fields[0] == "ok" || fields[0] == "?") && strings.Contains(line, "\t")
		if last && !strings.Contains(line, "[no test files]") || failed && !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// reason finds out why a test was skipped. Elsewhere says that the same test is run by
// somebody else in the same `go test`, see internal/testenv.
func reason(said []string) (why string, elsewhere bool) {
	text := strings.Join(said, "")
	for _, there := range []string{"and was run as root before", "and will be run as one", "and was run where that is before"} {
		if strings.Contains(text, there) {
			return "", true
		}
	}
	for line := range strings.Lines(text) {
		// "    file_test.go:12: without bpf: operation not permitted"
		_, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if without, is := strings.CutPrefix(rest, "without "); ok && is {
			feature, _, _ := strings.Cut(without, ":")
			return feature, false
		}
		// "skip: install the package zsh: its completions are not tested", of a script
		for _, mark := range []string{"install the package ", "is not installed"} {
			before, after, ok := strings.Cut(line, mark)
			if !ok {
				continue
			}
			words := strings.FieldsFunc(after, func(r rune) bool { return r == ':' || r == ' ' || r == '\n' })
			if strings.HasPrefix(mark, "is") {
				words = strings.Fields(before)
				slices.Reverse(words)
			}
			if len(words) > 0 {
				return strings.Trim(words[0], "'\"[]"), false
			}
		}
	}
	return "other reasons", false
}

// hints are the commands that run what was skipped, by reason. Of others this machine or its kernel has none.
var hints = map[string]string{"root": "sudo make test", "long": "make test-long"}

// installable are features that `make deps` installs.
var installable = []string{
	"bubblewrap", "bwrap", "gcc", "mandoc", "groff-base", "zsh", "fish", "bash-completion", "git", "ssh", "sshd", "psql", "dig",
	"perl", "python3", "ip",
}

func hint(reason string) string {
	if slices.Contains(installable, reason) {
		return "make deps"
	}
	return hints[reason]
}

func (s *summary) line(root bool) string {
	text := fmt.Sprintf("%d ran, %d skipped", s.ran, s.skipped)
	if s.failed > 0 {
		text = fmt.Sprintf("FAILED: %d; %s", s.failed, text)
	}
	byHint := map[string][]string{}
	for _, why := range slices.SortedFunc(maps.Keys(s.why), func(a, b string) int {
		return cmp.Or(s.why[b]-s.why[a], strings.Compare(a, b))
	}) {
		part := fmt.Sprintf("%d without %s", s.why[why], why)
		if why == "other reasons" {
			part = fmt.Sprintf("%d for other reasons", s.why[why])
		}
		byHint[hint(why)] = append(byHint[hint(why)], part)
	}
	var parts []string
	for _, h := range slices.Sorted(maps.Keys(byHint)) {
		part := strings.Join(byHint[h], ", ")
		switch {
		case h == "":
			part += " (this machine has none)"
		case h == "make deps" && !root:
			part += " (sudo make deps)"
		default:
			part += " (" + h + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	return text
}
