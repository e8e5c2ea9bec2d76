//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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
	for how, elevate := range map[string]func() error{
		"":             func() error { return nil },
		"set-user-id":  func() error { return os.Chmod(file, 0o755|os.ModeSetuid) },
		"set-group-id": func() error { return os.Chmod(file, 0o755|os.ModeSetgid) },
		"capability": func() error {
			// struct vfs_cap_data: version 2 and effective, then permitted and inheritable, low and high.
			data := make([]byte, 20)
			binary.LittleEndian.PutUint32(data, 0x02000001)
			binary.LittleEndian.PutUint32(data[4:], 1<<unix.CAP_NET_RAW)
			return unix.Setxattr(file, "security.capability", data, 0)
		},
	} {
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, self, 0o755), elevate()); err != nil {
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
