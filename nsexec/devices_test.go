//go:build linux

package nsexec_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGivenDevices: through descriptors that the command is given, it cannot change the host's devices. It can use the
// devices as before.
func TestGivenDevices(t *testing.T) {
	const change = `for fd in 0 1 2 3 4; do case $(readlink /proc/self/fd/$fd) in /dev/*)
		chmod $(stat -Lc %a /proc/self/fd/$fd) /proc/self/fd/$fd && echo changed $fd;; esac 2>/dev/null; done; true`
	const use = `echo fine >&3; cat; head -c 2 <&4 | od -An -tx1 | tr -d ' '; readlink /proc/self/fd/[034]; (echo no >&0) 2>/dev/null || echo read-only; grep flags /proc/self/fdinfo/3`
	files := func(t *testing.T) (list []*os.File) {
		for _, name := range []string{os.DevNull, "/dev/zero"} {
			f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			list = append(list, f)
		}
		return list
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	outside := func(script string) string {
		c := exec.Command("sh", "-c", script)
		c.Stdin, c.ExtraFiles = null, files(t)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("the control: %v, %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := outside(change); os.Geteuid() == 0 && got != "changed 0\nchanged 2\nchanged 3\nchanged 4" {
		t.Fatalf("the control: %q", got)
	}
	usual := outside(use)
	bothWays(t, func(t *testing.T, classic bool) {
		for script, want := range map[string]string{change: "", use: usual} {
			c := in(classic, base(), script)
			c.Stdin, c.ExtraFiles = null, files(t)
			check(t, c, want)
		}
		check(t, in(classic, base(), change), "") // nil is /dev/null
	})
}
