//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestRunsAtOnce: two commits at the same time, neither of which has anything that runs later in the project as it was
// when it began. Together they do, so one of them holds something back.
func TestRunsAtOnce(t *testing.T) {
	testenv.Leaks(t)
	const setup = "mkdir -p b/hooks w; echo 1 >a"
	for name, c := range map[string]struct{ first, second, part, trigger string }{
		"hook, and a commit to a part of the project": {`printf '#!/bin/sh\necho >"$M"\n' >b/hooks/reference-transaction; chmod +x b/hooks/reference-transaction`, `mkdir refs objects; echo 'ref: refs/heads/main' >HEAD`, "b", "cd b; git update-ref refs/x/z $(git hash-object -w --stdin </dev/null)"},
		"hook":                {`printf '#!/bin/sh\necho >"$M"\n' >b/hooks/reference-transaction; chmod +x b/hooks/reference-transaction`, `mkdir b/refs b/objects; echo 'ref: refs/heads/main' >b/HEAD`, ".", "cd b; git update-ref refs/x/z $(git hash-object -w --stdin </dev/null)"},
		"hook, the other way": {`mkdir b/refs b/objects; echo 'ref: refs/heads/main' >b/HEAD`, `printf '#!/bin/sh\necho >"$M"\n' >b/hooks/reference-transaction; chmod +x b/hooks/reference-transaction`, ".", "cd b; git update-ref refs/x/z $(git hash-object -w --stdin </dev/null)"},
	} {
		t.Run(name, func(t *testing.T) {
			marker := ""
			run := func(root string) bool {
				marker = filepath.Join(filepath.Dir(root), "marker")
				cmd := exec.Command("sh", "-c", c.trigger)
				cmd.Dir, cmd.Env = root, append(os.Environ(), "M="+marker)
				_ = cmd.Run()
				_, err := os.Stat(marker)
				_ = os.Remove(marker)
				return err == nil
			}
			for _, exec := range []bool{true, false} {
				root := project(t, setup)
				state := filepath.Join(tempDir(t), "state")
				begin := func(in string) *Session {
					s, err := Create(Options{Roots: []string{filepath.Join(root, in)}, Dir: state})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close() })
					return s
				}
				one, two := begin("."), begin(c.part)
				sandbox(t, one, c.first)
				sandbox(t, two, c.second)
				done := false
				o := CommitOptions{AllowExec: exec, Progress: func(Progress) {
					if !done {
						done = true
						if err := two.CommitWith(t.Context(), CommitOptions{AllowExec: exec}); err != nil {
							t.Error(err)
						}
					}
				}}
				err := one.CommitWith(t.Context(), o)
				if got := run(root); got != exec {
					t.Errorf("exec %v: it runs %v: %v", exec, got, err)
				}
				if !exec && len(one.Held()) == 0 {
					t.Error("nothing was held back")
				}
			}
		})
	}
}

// TestTurns: commits to one project, or to a part of it, take turns, and others do not wait for them.
func TestTurns(t *testing.T) {
	state, err := tree.OpenAbs(tempDir(t), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	begin := func(path string) *turn {
		turn, err := newTurn(state, []Root{{Path: path}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(turn.close)
		return turn
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for path, waits := range map[string]bool{"/p/a": true, "/p": true, "/p/a/b/c": true, "/": true, "/p/b": false, "/q": false} {
		holder, other := begin("/p/a"), begin(path)
		if late, err := holder.take(t.Context(), 0, nil); late || err != nil {
			t.Errorf("%s: late %v, error %v", path, late, err)
		}
		late, err := other.take(ended, 0, nil)
		if waits {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: it does not wait: %v", path, err)
			}
			done := make(chan bool)
			go func() {
				late, err := other.take(t.Context(), 0, nil)
				done <- late && err == nil
			}()
			holder.end()
			if !<-done {
				t.Errorf("%s: it does not know of the other commit", path)
			}
		} else if late || err != nil {
			t.Errorf("%s: it waits, or looks again: %v", path, err)
		}
		holder.end()
		other.end()
	}
}

// TestStoppedCommit: a commit that waits for another one, which somebody has stopped, says so once. It can be canceled,
// and is then not done. The control is the commit after the other one has ended.
func TestStoppedCommit(t *testing.T) {
	testenv.Leaks(t)
	s := create(t, project(t, "echo 1 >a"))
	sandbox(t, s, "echo 2 >a")
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	o := CommitOptions{Waiting: func(Holder) { said++; cancel() }}
	other, err := newTurn(s.state, s.roots)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.take(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.CommitWith(ctx, o); !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("it said %d times that it waits: %v", said, err)
	}
	if s.State() == Committed {
		t.Error("it is committed")
	}
	other.end()
	if err := s.CommitWith(t.Context(), o); err != nil || said != 1 {
		t.Errorf("it said %d times that it waits: %v", said, err)
	}
}
