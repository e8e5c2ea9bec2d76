//go:build linux

package overlay

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestMergedRuns: two commands change a file in harmless ways, and only the merged text runs something. A commit that
// merges the changes refuses the file.
func TestMergedRuns(t *testing.T) {
	testenv.Leaks(t)
	const section = "[user]\n# 1\n# 2\n# 3\n# 4\n[zzz]\n\tst = !echo >../marker\n"
	for name, c := range map[string]struct{ setup, first, second, trigger string }{
		"git's configuration": {"git init -q; printf '%s' '" + section + "' >>.git/config", `sed -i 's/^.user.$/[alias]/' .git/config`, `sed -i '/zzz/d' .git/config`, "git st"},
		"a list of versions":  {`printf 'a 1\n# 1\n# 2\n# 3\n# 4\n# 5\nb 2\n' >.tool-versions`, `sed -i 's/^a 1$/a 3/' .tool-versions`, `sed -i 's/^b 2$/b 4/' .tool-versions`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := project(t, c.setup)
			one, two := create(t, root), create(t, root)
			sandbox(t, one, c.first)
			sandbox(t, two, c.second)
			preserve(t, two)
			untilNewer(t, two, root)
			if err := one.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := two.CommitWith(t.Context(), CommitOptions{Prefer: Merge})
			if c.trigger == "" { // what is harmless is merged
				if err != nil {
					t.Error(err)
				}
				return
			}
			var ce *ConflictError
			if !errors.As(err, &ce) || len(ce.Conflicts) != 1 || ce.Conflicts[0].Unmerged == nil {
				t.Errorf("the merged text was committed: %v", err)
			}
			run := func() bool {
				cmd := exec.Command("sh", "-c", c.trigger)
				cmd.Dir = root
				_ = cmd.Run()
				marker := filepath.Join(filepath.Dir(root), "marker")
				_, err := os.Stat(marker)
				_ = os.Remove(marker)
				return err == nil
			}
			if run() {
				t.Error("it runs something")
			}
			if err := two.CommitWith(t.Context(), CommitOptions{Prefer: Merge, AllowExec: true}); err != nil {
				t.Errorf("with AllowExec: %v", err)
			} else if !run() {
				t.Error("the control runs nothing")
			}
		})
	}
}
