//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

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

// TestStoppedCommit: while somebody has stopped another commit to the project, the caller's context ends the commit of
// a command, and its changes are kept. The control is the same command when the other commit has ended.
func TestStoppedCommit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "state/")
	project, state := filepath.Join(dir, "project"), filepath.Join(dir, "state")
	run := func(ctx context.Context) (nsrun.Result, error) {
		r := nsrun.NewRunner(nsrun.Config{Project: project, After: nsrun.Commit, NoPlayground: true, StateDir: state})
		defer func() { _ = r.Close() }()
		return r.Run(ctx, nsrun.Request{Args: []string{"sh", "-c", "echo 1 >a"}})
	}
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	// This is what a commit holds while it changes a project.
	turns, err := os.OpenFile(filepath.Join(state, "turns"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer turns.Close()
	if err := unix.FcntlFlock(turns.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	type ended struct {
		res nsrun.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		res, err := run(ctx)
		done <- ended{res, err}
	}()
	testenv.Eventually(t, "a commit that has begun", func() bool {
		begun, _ := filepath.Glob(filepath.Join(state, "*/tx/*"))
		return len(begun) > 0
	})
	cancel()
	got := <-done
	if !errors.Is(got.err, context.Canceled) || got.res.State != overlay.Kept || got.res.ExitCode != 0 {
		t.Errorf("state %v, exit status %d, error %v", got.res.State, got.res.ExitCode, got.err)
	}
	if _, err := os.Lstat(filepath.Join(project, "a")); err == nil {
		t.Error("it is committed")
	}
	turns.Close()
	if res, err := run(t.Context()); err != nil || res.State != overlay.Committed {
		t.Errorf("state %v, error %v", res.State, err)
	}
}
