//go:build linux

package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestWholeSeconds: where a file system counts in whole seconds, what was changed in the same step as the session began
// counts as changed since. A copy begins with a step, so nothing else counts so.
func TestWholeSeconds(t *testing.T) {
	testenv.Leaks(t)
	defer func(f func(tree.Stat) bool) { wholeSeconds = f }(wholeSeconds)
	wholeSeconds = func(tree.Stat) bool { return true }
	for _, engine := range enginesHere(t) {
		t.Run(engine.String(), func(t *testing.T) {
			var root string
			var s *Session
			testenv.Eventually(t, "a session begins in the step that a change is in", func() bool {
				root = project(t, `echo a >f; echo a >g`)
				outside(t, root, `echo mine >f`)
				s = createWith(t, engine, root)
				f, err1 := os.Stat(filepath.Join(root, "f"))
				now, err2 := fileClock()
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				changed, since := f.ModTime().Truncate(tree.ClockStep), time.Unix(0, s.meta.Began()+1)
				if since.UnixNano()%int64(tree.ClockStep) != 0 || since.Before(changed) || since.After(now) {
					t.Fatalf("the session began at %s", since)
				}
				return engine == EngineCopy || since.Equal(changed)
			})
			outside(t, root, `echo mine >g`)
			sandbox(t, s, `echo b >f; echo b >g`)
			preserve(t, s)
			want := "f g"
			if engine == EngineCopy {
				want = "g"
			}
			ce, _ := errors.AsType[*ConflictError](s.Commit(t.Context()))
			if ce == nil {
				t.Fatal("no conflict")
			}
			var got []string
			for _, c := range ce.Conflicts {
				got = append(got, c.Path)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("conflicts: %q, want %s", got, want)
			}
		})
	}
}
