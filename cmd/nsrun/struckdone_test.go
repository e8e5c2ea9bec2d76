//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestDoneIsLogged: a verb may have done its work although the wait for its session's directory fails. Then it says so,
// and nsrun log knows it.
func TestDoneIsLogged(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	base, bin := fastDir(t), installed(t)
	for i, v := range struckVerbs {
		if v.aside || v.name == "commit a part" || !testenv.Turn(i) {
			continue
		}
		tr := &struckTrial{struckVerb: v, base: base, bin: bin, engine: "overlay"}
		tr.run(t)
		waits, ends := 0, decides()
		for _, c := range tr.calls {
			if ends(c) {
				waits++
			}
		}
		p := tr.prepared(t)
		plan := strike.Plan{At: waits, Do: strike.Fail, Errno: unix.EIO, Only: decides()}
		r, out := tr.strike(t, p, plan)
		wrong := append(p.unlogged(t), tr.judge(t, p, plan, r, out)...)
		if r.Failed != 1 || r.ExitCode <= 0 || !saysDone(out) {
			wrong = append(wrong, "it does not say that it was done")
		}
		if len(wrong) > 0 {
			t.Errorf("%s, %s fails: status %d: %s\n\t%s", v.name, r.Call, r.ExitCode, out, strings.Join(wrong, "\n\t"))
		}
		p.drop(t)
	}
}

// decides returns a function that is told all calls of a verb in turn. It reports which of them wait for the session's
// directory after its data was replaced. How often and when other data is flushed can differ from run to run.
func decides() func(strike.Call) bool {
	replaced := false
	return func(c strike.Call) bool {
		switch {
		case c.Name == "renameat2" && len(c.Files) == 2 && filepath.Base(c.Files[1]) == "session.json":
			replaced = true
		case replaced && c.Name == "fsync" && filepath.Base(filepath.Dir(c.Files[0])) == "sessions":
			replaced = false
			return true
		}
		return false
	}
}
