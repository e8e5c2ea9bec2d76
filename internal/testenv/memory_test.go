//go:build linux

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestInMemory: with NSRUN_TEST_MEMORY both runs have a tmpfs of their own for temporary files; without it they have
// what is there. Neither leaves anything mounted.
func TestInMemory(t *testing.T) {
	const again = "NSRUN_TEST_MEMORY_AGAIN"
	if os.Getenv(again) != "" {
		fmt.Printf("in memory: %t\n", onTmpfs(os.TempDir()))
		return
	}
	NeedRoot(t)
	NeedNamespaces(t)
	dir := DiskDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if available() < enough {
		Skip(t, "memory", "there is too little free memory")
	}
	before := Mounts()
	for _, memory := range []string{"", "1"} {
		c := exec.Command("/proc/self/exe", "-test.run=^TestInMemory$")
		c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
			return strings.HasPrefix(kv, asRootEnv+"=") || strings.HasPrefix(kv, onceEnv+"=")
		})
		c.Env = append(c.Env, again+"=1", memoryEnv+"="+memory, "TMPDIR="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if want := fmt.Sprintf("in memory: %t\n", memory != ""); strings.Count(string(out), want) != 2 {
			t.Errorf("%q, want twice %q", out, want)
		}
	}
	if after := Mounts(); !slices.Equal(before, after) {
		t.Errorf("mounts before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}
