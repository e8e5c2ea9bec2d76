//go:build linux

package main

import (
	"os"
	"testing"

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
