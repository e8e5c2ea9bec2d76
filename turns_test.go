//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// TestTurns: commands of one Runner that have no session run at once, whatever After is: each ends only when all
// are there. Those that share a session come one after the other.
func TestTurns(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const at = 4
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "meet/", "read/")
	meet := filepath.Join(dir, "meet")
	for i, c := range []struct {
		name   string
		config nsrun.Config
		alone  bool
	}{
		{"no project", nsrun.Config{}, false},
		{"direct", nsrun.Config{Project: filepath.Join(dir, "project"), Mode: nsrun.Direct}, false},
		{"read-only", nsrun.Config{Project: filepath.Join(dir, "read"), Mode: nsrun.ReadOnly}, false},
		{"commit", nsrun.Config{Project: filepath.Join(dir, "project"), After: nsrun.Commit}, false},
		{"discard", nsrun.Config{Project: filepath.Join(dir, "project"), After: nsrun.Discard}, false},
		{"keep", nsrun.Config{Project: filepath.Join(dir, "project")}, true},
		{"keep, shared folder", nsrun.Config{Shared: []nsrun.Folder{{Path: filepath.Join(dir, "project")}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			here := filepath.Join(meet, fmt.Sprint(i))
			if err := os.MkdirAll(here, 0o755); err != nil {
				t.Fatal(err)
			}
			c.config.NoPlayground, c.config.StateDir = true, filepath.Join(dir, "state")
			c.config.Shared = append(c.config.Shared, nsrun.Folder{Path: here, Mode: nsrun.Direct})
			r := nsrun.NewRunner(c.config)
			defer func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience) // never reached unless it fails
			defer cancel()
			// All wait for each other; those that take turns look whether they are alone.
			script := fmt.Sprintf("cd %s; : >$0; while [ $(ls | wc -l) -lt %d ]; do sleep 0.01; done", here, at)
			if c.alone {
				script = fmt.Sprintf("cd %s; mkdir alone && sleep 0.05 && rmdir alone", here)
			}
			errs := make(chan error, at)
			for i := range at {
				go func() {
					res, err := r.Run(ctx, nsrun.Request{Args: []string{"/bin/sh", "-c", script, fmt.Sprint(i)}})
					if err == nil && res.ExitCode != 0 {
						err = fmt.Errorf("%s", res)
					}
					errs <- err
				}()
			}
			for range at {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestClosedRunner: what a Runner says after Close is known by its error's value.
func TestClosedRunner(t *testing.T) {
	r := nsrun.NewRunner(nsrun.Config{NoPlayground: true})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); !errors.Is(err, nsrun.ErrClosed) {
		t.Error(err)
	}
}

// TestCloseFails: a Runner that cannot remove its empty session leaves it to others.
func TestCloseFails(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "state/")
	r := nsrun.NewRunner(nsrun.Config{Project: dir + "/p", StateDir: dir + "/state", NoPlayground: true})
	if _, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil {
		t.Fatal(err)
	}
	id := r.Session().ID()
	testenv.Tree(t, dir, "state/.gone-"+id+"/in the way/")
	if err := r.Close(); err == nil {
		t.Fatal("no error")
	}
	s, err := overlay.Open(dir+"/state", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
