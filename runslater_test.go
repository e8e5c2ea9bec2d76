//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/latercases"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// latePlace is a project of a case, in the place that HOME and the state directory are in.
func latePlace(t testing.TB, dir, setup string) string {
	t.Helper()
	top, err := os.MkdirTemp(dir, "case-")
	if err != nil {
		t.Fatal(err)
	}
	return latercases.Place(t, top, setup)
}

// TestRunsLater: files that would be executed outside are not in the project after a commit without a review. The
// control is a run without the sandbox: there they are executed.
func TestRunsLater(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	controls := 0
	for i, c := range latercases.Cases() {
		if !testenv.Turn(i) || !testenv.Part(i/2, 2) {
			continue
		}
		p := latePlace(t, dir, c.Setup)
		if c.Trigger != "" && latercases.Has(c.Needs) {
			if out, err := latercases.Outside(p, c.Plant+"\n"); err != nil {
				t.Errorf("%s: %v\n%s", c.Name, err, out)
			}
			out, _ := latercases.Outside(p, c.Trigger)
			if !latercases.Ran(p) {
				t.Errorf("%s: the control executed nothing\n%s", c.Name, out)
			}
			controls++
		}
		p = latePlace(t, dir, c.Setup)
		r := nsrun.NewRunner(nsrun.Config{Project: p, After: nsrun.Commit})
		res, err := r.Run(t.Context(), nsrun.Request{Command: latercases.Script(c.Plant)})
		if err != nil || res.ExitCode != 0 {
			t.Errorf("%s: %v\n%s", c.Name, err, res)
		}
		if c.Trigger != "" && latercases.Has(c.Needs) {
			out, _ := latercases.Outside(p, c.Trigger)
			if latercases.Ran(p) {
				t.Errorf("%s: it was executed\n%s%s", c.Name, res.Report(), out)
			}
		}
		if len(res.Held) == 0 || !strings.Contains(res.String(), "HELD BACK: ") || strings.Contains(res.HeldText(), "\n") {
			t.Errorf("%s: nothing was held back of\n%s", c.Name, res.Report())
		}
		for _, name := range c.Held {
			if !slices.ContainsFunc(res.Held, func(h overlay.Change) bool { return h.Path == name && h.Runs != "" }) {
				t.Errorf("%s: %s was not held back", c.Name, name)
			}
		}
		// The rest can be committed by a caller who asks for it.
		s, err := overlay.Open("", res.Session)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := s.CommitWith(t.Context(), overlay.CommitOptions{AllowExec: true, Prefer: overlay.Theirs}); err != nil || s.State() != overlay.Committed {
			t.Errorf("%s: %v, %v", c.Name, s.State(), err)
		}
		_ = s.Close()
		for _, name := range c.Held {
			if _, err := os.Lstat(filepath.Join(p, name)); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d controls", controls)
}

// TestOrdinaryWork: nothing of that is held back.
func TestOrdinaryWork(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	for _, w := range latercases.Workflows {
		if !testenv.TurnOf(w.Name) {
			continue
		}
		if !latercases.Has(w.Needs) {
			t.Logf("%s: %s is not installed", w.Name, w.Needs)
			continue
		}
		p := latePlace(t, dir, w.Setup)
		c := nsrun.Config{Project: p, After: nsrun.Commit}
		if w.Beside != "" {
			c.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: filepath.Join(p, w.Beside)}}
		}
		r := nsrun.NewRunner(c)
		res, err := r.Run(t.Context(), nsrun.Request{Command: latercases.Script(w.Do)})
		if err != nil || res.ExitCode != 0 || len(res.Held) != 0 || len(res.Changes) > 0 && res.State != overlay.Committed {
			t.Errorf("%s: %v, %v\n%s%s", w.Name, res.State, err, res, res.Report())
		}
		if out, err := latercases.Outside(p, w.Check); err != nil {
			t.Errorf("%s: %v\n%s", w.Name, err, out)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSettingsRemoved: a project's settings of nsrun are not removed by a commit without a review. The control is
// another file.
func TestSettingsRemoved(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := latePlace(t, place(t), "put .nsrun.toml x; put other x")
	for _, command := range []string{"rm .nsrun.toml other", "rm .nsrun.toml; mkdir .nsrun.toml", "mv .nsrun.toml x"} {
		r := nsrun.NewRunner(nsrun.Config{Project: p, After: nsrun.Commit})
		res, err := r.Run(t.Context(), nsrun.Request{Command: command})
		if err != nil || res.ExitCode != 0 || len(res.Held) != 1 || res.Held[0].Path != ".nsrun.toml" || res.Held[0].Runs != "nsrun settings" {
			t.Errorf("%s: %v\n%s\n%v", command, err, res, res.Held)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if fi, err := os.Lstat(filepath.Join(p, ".nsrun.toml")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("it was removed: %v, %v", fi, err)
	}
	if _, err := os.Lstat(filepath.Join(p, "other")); err == nil {
		t.Error("the other file was not removed")
	}
}
