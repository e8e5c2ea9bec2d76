//go:build linux

package overlay

import (
	"errors"
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
			root := project(t, `echo a >f; echo a >g`)
			// Not at the end of a step: the session begins in the step that the change is in.
			testenv.Eventually(t, "the first half of a step", func() bool {
				now := time.Now()
				return now.Sub(now.Truncate(tree.ClockStep)) <= tree.ClockStep/2
			})
			outside(t, root, `echo mine >f`)
			s := createWith(t, engine, root)
			if since := time.Unix(0, s.meta.Began()+1); since.UnixNano()%int64(tree.ClockStep) != 0 || time.Since(since) > 2*tree.ClockStep {
				t.Errorf("the session began at %s", since)
			}
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
