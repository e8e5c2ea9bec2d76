//go:build linux

package nsexec_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// oneReady waits for a sandbox that has its mounts in advance.
func oneReady() (pid int, err error) {
	if !testenv.Poll(testenv.Patience, func() bool {
		pids := nsexec.ReadyMounts()
		if len(pids) == 1 {
			pid = pids[0]
		}
		return len(pids) == 1
	}) {
		err = errors.New("no sandbox is ready")
	}
	return pid, err
}

// helpMountsAhead mounts and unmounts, in a mount namespace of its own, while a sandbox waits that has copied the
// mounts.
func helpMountsAhead(args []string) int {
	at := args[0]
	file := at + "/file"
	mount := func() error {
		return errors.Join(unix.Mount("t", at, "tmpfs", 0, ""), os.WriteFile(file, []byte("new"), 0o644))
	}
	unmount := func() error { return unix.Unmount(at, 0) }
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return complain(err)
	}
	defer nsexec.Shutdown()
	for i, step := range []struct {
		change func() error
		sees   string
	}{{nil, "old"}, {nil, "old"}, {mount, "new"}, {nil, "new"}, {unmount, "old"}, {mount, "new"}, {unmount, "old"}} {
		ready := 0
		if i > 0 {
			var err error
			if ready, err = oneReady(); err != nil {
				return complain(fmt.Errorf("step %d: %w", i, err))
			}
		}
		if step.change != nil {
			if err := step.change(); err != nil {
				return complain(err)
			}
			if i%2 == 0 { // it ends without a next command, too, and keeps nothing mounted
				if !testenv.Poll(testenv.Patience, func() bool { return unix.Kill(ready, 0) == unix.ESRCH }) {
					return complain(fmt.Errorf("step %d: the sandbox with the old mounts still waits", i))
				}
			}
		}
		c := shell("cat " + file + "; read line")
		in, err := c.StdinPipe()
		if err != nil {
			return complain(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			return complain(err)
		}
		if err := c.Start(); err != nil {
			return complain(err)
		}
		if same := c.Process.Pid == ready; same != (step.change == nil && i > 0) {
			return complain(fmt.Errorf("step %d: the sandbox is %d, %d was ready", i, c.Process.Pid, ready))
		}
		_ = in.Close()
		got, err := io.ReadAll(out)
		_ = c.Wait()
		if err != nil || string(got) != step.sees {
			return complain(fmt.Errorf("step %d: %q, %v", i, got, err))
		}
	}
	fmt.Print("fine")
	return 0
}

// TestMountsAhead: a sandbox that was made in advance is used only if nothing was mounted or unmounted since.
func TestMountsAhead(t *testing.T) {
	need(t, features.NewMountCalls)
	leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "at/file: old")
	inOwnMounts(t, "mountsahead", dir+"/at")
}

// inOwnMounts runs a helper in a mount namespace of its own, in which nobody else mounts.
func inOwnMounts(t *testing.T, helper string, args ...string) {
	t.Helper()
	c := exec.Command(exe, args...)
	c.Env = append(os.Environ(), helperVars(helper)...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if !testenv.Root() {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	if out, err := c.CombinedOutput(); err != nil || string(out) != "fine" {
		t.Errorf("%v\n%s", err, out)
	}
}

// helpOtherLauncher has sandboxes of two kinds wait, and then has one of them made by another launcher.
func helpOtherLauncher([]string) int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return complain(err)
	}
	defer nsexec.Shutdown()
	run := func(share nsexec.Namespace) error {
		c := shell("true")
		c.Share = share
		return c.Run()
	}
	if err := run(nsexec.IPC); err != nil {
		return complain(err)
	}
	old, err := oneReady()
	if err != nil {
		return complain(err)
	}
	nsexec.StopLauncher()
	if err := run(nsexec.UTS); err != nil {
		return complain(err)
	}
	pid := 0
	if !testenv.Poll(testenv.Patience, func() bool {
		pids := nsexec.ReadyMounts()
		if len(pids) == 1 {
			pid = pids[0]
		}
		return len(pids) == 1 && pid != old
	}) {
		return complain(fmt.Errorf("%v are ready, and nobody watches the mounts of %d", nsexec.ReadyMounts(), old))
	}
	if !testenv.Poll(testenv.Patience, func() bool { return unix.Kill(old, 0) == unix.ESRCH }) {
		return complain(fmt.Errorf("the sandbox %d still waits", old))
	}
	fmt.Print("fine")
	return 0
}

// TestMountsAheadOtherLauncher: a sandbox that waits ends when the mounts that it has copied are watched no longer.
func TestMountsAheadOtherLauncher(t *testing.T) {
	need(t, features.NewMountCalls)
	leaks(t)
	inOwnMounts(t, "otherlauncher")
}

// TestHiddenAhead: what a command hides does not depend on what the one before it hid.
func TestHiddenAhead(t *testing.T) {
	need(t, features.NewMountCalls)
	need(t, features.Overlay)
	leaks(t)
	dir := testenv.Dir(t)
	var names, tree []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("n%d", i), fmt.Sprintf("d/m%d", i), fmt.Sprintf("e/f/k%d", i))
	}
	for _, name := range names {
		tree = append(tree, name+": seen")
	}
	testenv.Tree(t, dir, tree...)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	used := 0
	for round := range 30 {
		var hide, want []string
		most := rnd.IntN(10)
		for _, name := range names {
			if rnd.IntN(10) < most {
				hide = append(hide, name)
			} else {
				want = append(want, name)
			}
		}
		if rnd.IntN(4) == 0 {
			hide = append(hide, "e/f")
			want = slices.DeleteFunc(want, func(name string) bool { return strings.HasPrefix(name, "e/f/") })
		}
		slices.SortFunc(want, cmp.Compare[string])
		c := shell("cd " + dir + " && find . -type f -printf '%P\\n' | LC_ALL=C sort")
		over := mounts.Mount{Kind: mounts.KindOverlay, Target: dir, Lower: []string{dir}, Hide: hide, ReadOnly: true}
		if len(hide) == 0 {
			over = mounts.ROBind(dir, dir)
		}
		c.Mounts = append(c.Mounts, over)
		ready := nsexec.ReadyMounts()
		got := output(t, c)
		if len(ready) == 1 && c.Process.Pid == ready[0] {
			used++
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("seed %d, round %d: with %q hidden\n got %q\nwant %q", seed, round, hide, strings.Fields(got), want)
		}
		// None is ready if somebody mounts meanwhile.
		testenv.Poll(time.Second, func() bool { return len(nsexec.ReadyMounts()) > 0 })
	}
	if used == 0 {
		t.Error("no command got the sandbox that was ready")
	}
}
