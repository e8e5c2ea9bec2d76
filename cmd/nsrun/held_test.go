//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/latercases"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestHeld: `run --commit` commits nothing that would be executed in the project, and says so. `commit` does, if the
// path is named.
func TestHeld(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	env := []string{"HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + filepath.Join(dir, "state")}
	for i, c := range latercases.Some() {
		if !testenv.Turn(i) {
			continue
		}
		top, err := os.MkdirTemp(dir, "case-")
		if err != nil {
			t.Fatal(err)
		}
		p := latercases.Place(t, top, c.Setup)
		report := filepath.Join(top, "report")
		status, out := nsrunIn(t, p, env, "run", "--commit", "--report", report, "--project", ".", "-c", latercases.Script(c.Plant))
		if status != 0 || !strings.Contains(out, "nsrun: held back: ") || !strings.Contains(out, "runs later: ") {
			t.Errorf("%s: status %d\n%s", c.Name, status, out)
		}
		var r struct {
			Held []struct{ Path, Reason string }
		}
		if b, err := os.ReadFile(report); err != nil || json.Unmarshal(b, &r) != nil || len(r.Held) == 0 || r.Held[0].Reason == "" {
			t.Errorf("%s: %v, %s", c.Name, err, b)
		}
		for _, name := range c.Held {
			if !slices.ContainsFunc(r.Held, func(h struct{ Path, Reason string }) bool { return h.Path == name }) {
				t.Errorf("%s: %s was not held back", c.Name, name)
			}
		}
		if c.Trigger != "" && latercases.Has(c.Needs) {
			out, _ := latercases.Outside(p, c.Trigger)
			if latercases.Ran(p) {
				t.Errorf("%s: the file was executed\n%s", c.Name, out)
			}
		}
		if status, out := nsrunIn(t, p, env, "commit", "--theirs", "last"); status != console.ExitFailed || !strings.Contains(out, "nsrun: nothing was done\n") {
			t.Errorf("%s: commit: status %d\n%s", c.Name, status, out)
		}
		if status, out := nsrunIn(t, p, env, "commit", "--theirs", "--allow-exec", "last"); status != 0 || strings.Contains(out, "held back") {
			t.Errorf("%s: commit --allow-exec: status %d\n%s", c.Name, status, out)
		}
	}
}
