//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/usage"
	"github.com/nsrun/nsrun/internal/manual"
	"github.com/nsrun/nsrun/internal/testenv"
)

// What is committed is what the tables say.
func TestGenerated(t *testing.T) {
	testenv.NeedCheckout(t)
	script := func(shell string) string {
		text, ok := manual.Completion(shell, manualVerbs())
		if !ok {
			t.Fatalf("there is no completion for %s", shell)
		}
		return text
	}
	for name, want := range map[string]string{
		"man/nsrun.1":            manual.Man(manualVerbs()),
		"docs/cli.md":            manual.Markdown(manualVerbs()),
		"completions/nsrun.bash": script("bash"),
		"completions/_nsrun":     script("zsh"),
		"completions/nsrun.fish": script("fish"),
	} {
		got, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s does not match the tables: run make generate", name)
		}
	}
}

func TestVerbs(t *testing.T) {
	for _, v := range verbs {
		if action(v.Name) == nil {
			t.Errorf("the verb %s does nothing", v.Name)
		}
	}
	if action("") != nil || action("--help") != nil {
		t.Error("an option is a verb")
	}
	if list := manual.Unknown(manualVerbs()); len(list) > 0 {
		t.Errorf("internal/manual/kind.go does not know %q: add how completions complete it", list)
	}
}

// TestExamples: verbs with paths or commands have examples, and these are command lines of that verb.
func TestExamples(t *testing.T) {
	for _, v := range verbs {
		needs := strings.Contains(v.Args, "COMMAND") || strings.Contains(v.Args, "…") || v.Name == "mcp"
		if needs && v.Examples == "" {
			t.Errorf("nsrun help %s has no example", v.Name)
		}
		if v.Examples == "" {
			continue
		}
		for line := range strings.SplitSeq(v.Examples, "\n") {
			out, err := exec.Command("sh", "-c", `printf '%s\n' `+line).Output()
			words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if err != nil || len(words) < 2 || words[0] != "nsrun" || words[1] != v.Name || strings.Contains(line, "\t") {
				t.Errorf("%s: %q, %v", v.Name, line, err)
				continue
			}
			parse := func(words []string) error {
				fs := v.FlagSet()
				if strings.Contains(v.Args, "COMMAND") {
					return usage.Flags(fs, words)
				}
				_, err := usage.Words(fs, words)
				return err
			}
			if err := parse(words[2:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}
