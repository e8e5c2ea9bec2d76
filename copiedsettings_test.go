//go:build linux

package nsrun_test

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestCopiedSettings: a rule about a settings file with secrets counts, and not the copy without them that commands see
// otherwise.
func TestCopiedSettings(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	testenv.NeedNamespaces(t)
	const harmless = "registry=https://mirror.example/\n"
	testenv.Tree(t, dir, "home/.npmrc: "+harmless+"_authToken=secret\n")
	npmrc := filepath.Join(dir, "home/.npmrc")
	for _, at := range []string{"where it is", "/srv"} { // the first one can lie in a private directory of the sandbox
		if at == "/srv" {
			testenv.NeedRoot(t)
			livesIn(t, dir, at)
			npmrc = "/srv/.npmrc"
		}
		for _, home := range []nsrun.HomeMode{nsrun.HomeLayer, nsrun.HomeReadOnly} {
			for _, tc := range []struct {
				name  string
				rules []nsrun.Rule
				want  string
			}{
				{"no rule", nil, harmless},
				{"blocked", []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: npmrc}}, ""},
				{"shown", []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: npmrc}}, harmless + "_authToken=secret\n"},
			} {
				c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Home: home, Rules: tc.rules}
				got := printed(t, runner(t, c), "cat ~/.npmrc 2>/dev/null")
				if got != tc.want && !(got == "" && home == nsrun.HomeReadOnly && at != "/srv" && tc.rules == nil) {
					t.Errorf("%s, home %v, %s: %q, want %q", at, home, tc.name, got, tc.want)
				}
			}
		}
	}
}
