//go:build linux

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLongPaths: a text longer than any path leads nowhere, and nsrun does no work for each of its components. A
// command could write such a file with --direct, and the next command then did not start.
func TestLongPaths(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not installed")
	}
	long := strings.Repeat("/d", 20000)
	for name, text := range map[string]string{
		".git/worktrees/w/gitdir": long + "/.git",
		".git/config":             "[core]\n\thooksPath = ." + long + "\n[include]\n\tpath = ." + long + "\n",
		"sub/.git":                "gitdir: ." + long,
		".gitmodules":             "[submodule \"d\"]\n\tpath = d" + long + "\n",
	} {
		dir := testenv.Dir(t)
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := protectGit([]string{dir}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 100<<20 {
			t.Errorf("%s: %d MiB of memory for a path of %d KiB", name, n>>20, len(long)>>10)
		}
	}
}
