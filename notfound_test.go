//go:build linux

package nsrun_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/overlay"
)

// TestSessionAfterFailedStart: a program that is not found does not spoil the session that it was to continue.
func TestSessionAfterFailedStart(t *testing.T) {
	for _, engine := range []overlay.Engine{overlay.EngineOverlay, overlay.EngineTmpfs, overlay.EngineCopy} {
		dir := place(t, "a: old\n", "b: old\n")
		project := filepath.Join(dir, "p")
		r := runner(t, nsrun.Config{Project: project, StateDir: filepath.Join(dir, "sessions"), Engine: engine})
		for i, c := range []struct{ command, want string }{{"echo 1 >a", ""}, {"cat a; echo 2 >>a; rm b", "1\n"}, {"cat a; ls", "1\n2\na\n"}} {
			if got := sh(t, r, c.command); got != c.want {
				t.Errorf("%v, command %d: %q, want %q", engine, i, got, c.want)
			}
			for range 2 {
				res, err := r.Run(t.Context(), nsrun.Request{Args: []string{"nosuchprogram"}})
				if res.Started || !errors.Is(err, exec.ErrNotFound) {
					t.Errorf("%v, control: %v", engine, err)
				}
			}
		}
		if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
			t.Errorf("%v: %v", engine, err)
		}
		if a, b := content(project, "a"), content(project, "b"); a != "1\n2\n" || b != "-" {
			t.Errorf("%v: committed %q and %q", engine, a, b)
		}
	}
}
