//go:build linux

package nsrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestDirectGit: what a command puts into a git directory makes git, when its owner uses it
// next, write, read or execute nothing outside. The control is the same without a sandbox.
func TestDirectGit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	for name, c := range map[string]struct {
		plant, use string
	}{
		"reflog":     {"ln -sf $VICTIM .git/logs/HEAD", "git commit -q --allow-empty -m x"},
		"objects":    {"mkdir $VICTIM.d; rm -rf .git/objects/??; for i in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do for j in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do ln -s $VICTIM.d .git/objects/$i$j; done; done", "echo y >new; git add new; find $VICTIM.d -type f | grep -q . && echo changed >>$VICTIM"},
		"hook":       {"printf '#!/bin/sh\\necho changed >>$VICTIM\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", "git commit -q --allow-empty -m x"},
		"fsmonitor":  {"printf '[core]\\n\\tfsmonitor = echo changed >>$VICTIM;false\\n' >>.git/config", "git status"},
		"alternates": {"git init -q other; echo ok >other/f; git -C other add f; git -C other -c user.name=a -c user.email=a@b commit -qm other; echo $PWD/other/.git/objects >.git/objects/info/alternates; git -C other rev-parse HEAD >h", "git cat-file -e $(cat h) && echo changed >>$VICTIM"},
	} {
		if !testenv.TurnOf(name) {
			continue
		}
		for _, control := range []bool{true, false} {
			dir := place(t)
			p, victim := filepath.Join(dir, "p"), filepath.Join(dir, "victim")
			testenv.Tree(t, dir, "victim: as it was")
			outside := func(script string) (string, error) {
				cmd := exec.Command("/bin/sh", "-c", script)
				cmd.Dir = p
				cmd.Env = append(os.Environ(), "VICTIM="+victim, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1")
				b, err := cmd.CombinedOutput()
				return string(b), err
			}
			if out, err := outside("git init -q -b main . && echo x >f && git add f && git commit -qm first && git gc -q"); err != nil {
				t.Fatal(err, out)
			}
			if control {
				_, _ = outside(c.plant)
			} else {
				r := runner(t, nsrun.Config{Project: p, Mode: nsrun.Direct, Env: []string{"VICTIM=" + victim}})
				if got := sh(t, r, "git status --short && git log --format=%s && git diff HEAD && git blame -s f && git show HEAD:f"); !strings.Contains(got, "first\n") || !strings.HasSuffix(got, "x\n") {
					t.Errorf("reading: %q", got)
				}
				_ = output(t, r, nsrun.Request{Command: c.plant})
			}
			out, _ := outside(c.use)
			if changed := content(victim) != "as it was"; changed != control {
				t.Errorf("%s, control %v: %q; git says %q", name, control, content(victim), out)
			}
		}
	}
}
