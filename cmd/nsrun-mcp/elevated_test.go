//go:build linux

package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestElevated: a copy of nsrun-mcp with more rights than its caller serves nobody. The control
// is the same copy without them.
func TestElevated(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/p/file: x")
	home, file := filepath.Join(dir, "home"), filepath.Join(dir, "copy")
	for _, name := range []string{home, home + "/p", home + "/p/file"} {
		if err := os.Chown(name, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	const request = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	attempt := func(args ...string) (status int, out string) {
		c := exec.Command(file)
		c.Args, c.Dir, c.Stdin = append([]string{"nsrun-mcp"}, args...), home+"/p", strings.NewReader(request)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GORACE=atexit_sleep_ms=0"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		b, _ := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(args, "was not executed")
		}
		return c.ProcessState.ExitCode(), string(b)
	}
	elevations := maps.Clone(testenv.Elevations)
	elevations[""] = func(string) error { return nil }
	for how, elevate := range elevations {
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, self, 0o755), elevate(file)); err != nil {
			t.Fatal(how, err)
		}
		if how == "" {
			if status, out := attempt(); status != 0 || !strings.Contains(out, `"serverInfo"`) {
				t.Errorf("control: status %d\n%s", status, out)
			}
			continue
		}
		for _, args := range [][]string{nil, {"--keep"}, {"-h"}, {"--project", home + "/p"}, {"--nonsense"}} {
			status, out := attempt(args...)
			line := strings.TrimSuffix(out, "\n")
			if status != 125 || !strings.Contains(line, "more rights than its caller") || strings.Contains(line, "\n") {
				t.Errorf("%s: %q: status %d\n%s", how, args, status, out)
			}
		}
	}
}
