//go:build linux

package nsrun_test

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

func needLandlock(t testing.TB) {
	t.Helper()
	for _, name := range []features.Name{features.LandlockScopes, features.SeccompNotification} {
		if f := features.Get(name); f.Status != features.Yes {
			testenv.Skip(t, string(name), f.Why)
		}
	}
}

// TestLandlock: a session without namespaces is one like others.
func TestLandlock(t *testing.T) {
	needLandlock(t)
	dir := place(t, "a: old\n", "d/")
	project := filepath.Join(dir, "p")
	r := runner(t, nsrun.Config{Project: project, Backend: nsrun.LandlockBackend})
	if got := sh(t, r, "cat a; echo new >a; echo x >d/x; printf '#!/bin/sh\\necho run\\n' >s && chmod 700 s && ./s"); got != "old\nrun\n" {
		t.Errorf("the first command: %q", got)
	}
	if got := sh(t, r, "cat a d/x; stat -c %a s; ls"); got != "new\nx\n700\na\nd\ns\n" {
		t.Errorf("the second one: %q", got)
	}
	if got := content(project, "a"); got != "old\n" {
		t.Errorf("before the commit: %q", got)
	}
	if err := r.Commit(t.Context(), overlay.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, x := content(project, "a"), content(project, "d/x"); a != "new\n" || x != "x\n" {
		t.Errorf("after it: %q, %q", a, x)
	}
}
