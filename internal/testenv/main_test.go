//go:build linux

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { Main(m) }

// TestTurn: where there are two runs each case is one's, and where there is one run all cases are its.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		name, once, asUser, long string
		all                      bool
	}{
		{"root's first run, or a user's second one", "", "1", "", false},
		{"NSRUN_TEST_ONCE", "1", "", "", true},
		{"a user's only run", "", "", "", !Root()},
		{"NSRUN_LONG", "", "1", "1", true},
	} {
		t.Setenv(onceEnv, c.once)
		t.Setenv(asUserEnv, c.asUser)
		t.Setenv("NSRUN_LONG", c.long)
		want := 1
		if c.all {
			want = 2
		}
		got := 0
		for i := range 2 {
			if Turn(i) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d of 2 cases are run, want %d", c.name, got, want)
		}
	}
}

// TestLeakedChild: a child process that was there before is no leak in another state, and a new one is.
func TestLeakedChild(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	old := start()
	before := make(state)
	children(before)
	if err := old.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the child stops", func() bool {
		p, ok := FindProcess(strconv.Itoa(old.Process.Pid))
		return ok && p.State == "T"
	})
	fresh := start()
	now := make(state)
	children(now)
	lines := now.since(before)
	if len(lines) != 1 || !strings.HasPrefix(lines[0], fmt.Sprintf("child process %d (", fresh.Process.Pid)) {
		t.Errorf("%q, want the child %d", lines, fresh.Process.Pid)
	}
}

// TestChildless: a child is seen while it runs, and until it has been waited for.
func TestChildless(t *testing.T) {
	if !childless() {
		t.Error("there is a child before")
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if childless() {
		t.Error("a child that runs is not seen")
	}
	_ = in.Close()
	Eventually(t, "the child ends", func() bool { return !Alive(cmd.Process.Pid) })
	if childless() {
		t.Error("a child that nobody has waited for is not seen")
	}
	if err := cmd.Wait(); err != nil || !childless() {
		t.Errorf("%v; there is a child afterwards: %t", err, !childless())
	}
}

// TestInheritsNothing: what tests start does not get the descriptors that somebody left open for this process, as make
// does with several jobs.
func TestInheritsNothing(t *testing.T) {
	const again = "NSRUN_TEST_INHERITS"
	opened := func(c *exec.Cmd) string {
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	look := []string{"sh", "-c", "[ ! -e /proc/self/fd/9 ] || echo inherited"}
	if os.Getenv(again) != "" {
		fmt.Print(opened(exec.Command(look[0], look[1:]...)))
		return
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	control := exec.Command(look[0], look[1:]...)
	c := exec.Command("/proc/self/exe", "-test.run=^TestInheritsNothing$")
	c.Env = append(os.Environ(), again+"=1")
	c.ExtraFiles, control.ExtraFiles = []*os.File{6: f}, []*os.File{6: f} // 0, 1 and 2 are before them
	if got := opened(control); got != "inherited\n" {
		t.Errorf("the control: %q", got)
	}
	if got := opened(c); got != "PASS\n" {
		t.Errorf("got %q", got)
	}
}

// TestMounts: what root mounts is seen, and for an ordinary user among others only what that user may have mounted.
func TestMounts(t *testing.T) {
	const (
		mine   = "41 26 0:35 / /home/me/mnt rw,nosuid,nodev,relatime shared:9 - fuse.sshfs host: rw,user_id=1000,group_id=1000"
		others = "42 26 0:36 / /home/you/mnt rw,nosuid,nodev,relatime shared:10 - fuse.sshfs host: rw,user_id=10001,group_id=1000"
		theirs = "43 26 0:37 / /run/user/1000 rw,nosuid,nodev,relatime shared:11 - tmpfs user_id=1000 rw,size=4k,uid=1000"
	)
	for _, line := range []string{mine, others, theirs} {
		if got := mountedBy(line, 1000); got != (line == mine) {
			t.Errorf("%s: %v", line, got)
		}
	}
	if !Root() {
		return
	}
	NeedNamespaces(t)
	dir := Dir(t)
	if err := unix.Mount("t", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	there := func(line string) bool { return strings.Contains(line, " "+dir+" ") }
	if !slices.ContainsFunc(Mounts(), there) {
		t.Error("a mount is not seen")
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(Mounts(), there) {
		t.Error("a mount that is gone is seen")
	}
}
