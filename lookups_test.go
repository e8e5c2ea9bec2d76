//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// TestIncludesItself: configuration of a repository that includes itself, or each of several files all of them, does
// not keep the next command from being started.
func TestIncludesItself(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "nested/.git/HEAD: ref: refs/heads/main\n", "nested/.git/objects/", "nested/.git/refs/")
	all := ""
	for i := range 12 {
		all += fmt.Sprintf("[include]\n\tpath = c%d\n", i)
	}
	git := filepath.Join(dir, "p", "nested", ".git")
	for i := range 12 {
		testenv.Tree(t, git, fmt.Sprintf("c%d: %s", i, all))
	}
	testenv.Tree(t, git, "config: "+all+"[include]\n\tpath = config\n")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), Mode: nsrun.Direct})
	if res, err := r.Run(t.Context(), nsrun.Request{Command: "true"}); err != nil || res.ExitCode != 0 {
		t.Error(res, err)
	}
}

// TestSecretsOfLargeHome: what is hidden is found in directories that take more than one look, and whatever else is
// there.
func TestSecretsOfLargeHome(t *testing.T) {
	for _, n := range []int{0, 2000} {
		home := testenv.Dir(t)
		testenv.Tree(t, home, ".ssh/", ".config/gh/", "Téléchargements/", ".config/é/")
		for i := range n {
			for _, d := range []string{home, filepath.Join(home, ".config")} {
				if err := os.WriteFile(filepath.Join(d, fmt.Sprint("file number ", i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Setenv("HOME", home)
		plan := nsrun.HideSecrets()
		for _, name := range []string{".ssh", ".config/gh"} {
			name = filepath.Join(home, name)
			if !slices.ContainsFunc(plan, func(m mounts.Mount) bool { return m.Target == name }) {
				t.Errorf("among %d others %s is not hidden", n, name)
			}
		}
	}
}
