//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// restoring is a trial of nsrun restore, which replaces a file, and the call that replaces it.
func restoring(t *testing.T) (tr *struckTrial, replaces int) {
	t.Helper()
	tr = &struckTrial{base: fastDir(t), bin: installed(t), engine: "overlay", struckVerb: struckVerb{
		before: []string{runAndKeep, commitAll, "owner: beside"}, verb: "restore changed",
	}}
	var calls []strike.Call
	p := tr.prepared(t)
	defer p.drop(t)
	if r, out := tr.strike(t, p, strike.Plan{Trace: func(_ int, c strike.Call) { calls = append(calls, c) }}); r.ExitCode != 0 {
		t.Fatalf("%+v %s", r, out)
	}
	at := slices.IndexFunc(calls, func(c strike.Call) bool {
		return c.Name == "renameat2" && filepath.Dir(c.Files[0]) == p.project
	})
	if at < 0 {
		t.Fatalf("nothing is renamed: %v", calls)
	}
	return tr, at + 1
}

// TestRestoreKilledBesideFile: what a killed nsrun restore leaves beside the file is gone after the next verb.
func TestRestoreKilledBesideFile(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	tr, replaces := restoring(t)
	for i, verb := range []string{"ls", "diff", "show", "log", "run -q --direct -- true", "run -q -- true", "doctor --sessions"} {
		p := tr.prepared(t)
		do := []strike.Action{strike.Kill, strike.KillAfter}[i%2]
		r, _ := tr.strike(t, p, strike.Plan{At: replaces, Do: do})
		if left := p.litter(t); !r.Killed || len(left) != 1 {
			t.Fatalf("%+v left %q", r, left)
		}
		_, out := p.do(t, verb)
		if left := p.litter(t); len(left) > 0 {
			t.Errorf("%s left %q: %s", verb, left, out)
		}
		p.drop(t)
	}
}

// TestRestoreSaysThatItRestored: a restoration that replaced the file says so also if something fails then.
func TestRestoreSaysThatItRestored(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	tr, replaces := restoring(t)
	failed := 0
	for at := replaces; ; at++ {
		if !testenv.Turn(at) {
			continue
		}
		p := tr.prepared(t)
		r, out := tr.strike(t, p, strike.Plan{At: at, Do: strike.Fail, Errno: unix.EIO})
		again, _ := p.do(t, "restore --list changed")
		restored := !p.has(t, "changed", "another\n")
		p.drop(t)
		if r.Call.Name == "" { // behind the last call
			break
		}
		if restored && at == replaces || again != 0 {
			t.Fatalf("at %d, %s: restored: %t, restore --list: %d %s", at, r.Call, restored, again, out)
		}
		if said := strings.Contains(out, "nsrun: restored "); said != restored {
			t.Errorf("at %d, %s: restored: %t, and it said: %s", at, r.Call, restored, out)
		}
		if restored && r.ExitCode != 0 {
			failed++
			if !strings.Contains(out, "; the file was restored\n") {
				t.Errorf("at %d, %s: it said: %s", at, r.Call, out)
			}
		}
	}
	if failed == 0 {
		t.Error("no call failed after the file was replaced")
	}
}
