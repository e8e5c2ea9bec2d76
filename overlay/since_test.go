//go:build linux

package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestWholeSeconds: where a file system counts in whole seconds, a session begins with a step of its clock if something
// was changed in the step before. So what was changed before the beginning counts so, and what was changed after it.
func TestWholeSeconds(t *testing.T) {
	testenv.Leaks(t)
	defer func(f func(tree.Stat) bool) { wholeSeconds = f }(wholeSeconds)
	wholeSeconds = func(tree.Stat) bool { return true }
	for _, engine := range enginesHere(t) {
		t.Run(engine.String(), func(t *testing.T) {
			root := project(t, `mkdir d; echo a >d/f; echo a >g`)
			outside(t, root, `echo mine >d/f`)
			s := createWith(t, engine, root)
			f, err1 := os.Stat(filepath.Join(root, "d/f"))
			now, err2 := fileClock()
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			since := time.Unix(0, s.meta.Began()+1)
			if since.UnixNano()%int64(tree.ClockStep) != 0 || !since.After(f.ModTime()) || since.After(now) {
				t.Fatalf("the session began at %s, and the change before it was at %s", since, f.ModTime())
			}
			outside(t, root, `echo mine >g`)
			sandbox(t, s, `echo b >d/f; echo b >g`)
			preserve(t, s)
			ce, _ := errors.AsType[*ConflictError](s.Commit(t.Context()))
			if ce == nil {
				t.Fatal("no conflict")
			}
			var got []string
			for _, c := range ce.Conflicts {
				got = append(got, c.Path)
			}
			if strings.Join(got, " ") != "g" {
				t.Errorf("conflicts: %q", got)
			}
		})
	}
}

// TestWholeSecondsAtOnce: it begins at once if nothing was changed in the step.
func TestWholeSecondsAtOnce(t *testing.T) {
	testenv.Leaks(t)
	defer func(f func(tree.Stat) bool) { wholeSeconds = f }(wholeSeconds)
	wholeSeconds = func(tree.Stat) bool { return true }
	root, waited := project(t, `mkdir d; echo a >d/f`), nextStep
	defer func() { nextStep = waited }()
	testenv.Eventually(t, "a session begins without waiting", func() bool {
		if err := waited(t.Context()); err != nil {
			t.Fatal(err)
		}
		waits := 0
		nextStep = func(ctx context.Context) error { waits++; return waited(ctx) }
		s := create(t, root)
		now, err := fileClock()
		if err != nil {
			t.Fatal(err)
		}
		return waits == 0 && s.meta.Since == now.Truncate(tree.ClockStep).UnixNano()-1 // else the next step began meanwhile
	})
}

// TestBeginsInSeconds: sessions whose file system counts in whole seconds have an order, too.
func TestBeginsInSeconds(t *testing.T) {
	if !testenv.Root() {
		return // only root mounts here
	}
	dir := testenv.Image(t, "ext4 in a file", "mke2fs", "-q", "-t", "ext3", "-I", "128")
	var last time.Time
	for range 3 {
		s, err := Create(Options{Roots: []string{project(t, ``)}, Dir: filepath.Join(dir, "state")})
		if err != nil {
			t.Fatal(err)
		}
		if c := s.Info().Created; c.Nanosecond() == 0 || c.Before(last) {
			t.Errorf("it began at %s, the one before it at %s", c, last)
		}
		last = s.Info().Created
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
}
