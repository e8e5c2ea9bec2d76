//go:build linux

package limiter

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/testenv"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(apartEnv); name != "" {
		os.Exit(holdApart(name))
	}
	testenv.Main(m)
}

// hold holds a limit of processes and one of memory in cgroups.
func hold(t *testing.T, h *Host) *Hold {
	t.Helper()
	x, err := h.Hold(limits.Limits{Memory: 32 << 20, PIDs: 5}, nil, nil, false)
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Skip(t, "cgroup controllers", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if x.own == nil && x.v1 == nil {
		x.End()
		testenv.Skip(t, "cgroup controllers", "nsrun enforces these limits itself")
	}
	return x
}

// dirs are the paths of a Hold's cgroups.
func dirs(t *testing.T, x *Hold) (list []string) {
	t.Helper()
	var files []*os.File
	if x.own != nil {
		files = append(files, x.own.Dir)
	}
	for _, g := range x.v1 {
		files = append(files, g.Dir)
	}
	for _, f := range files {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, name)
	}
	return list
}

// there are those that still exist.
func there(list []string) (left []string) {
	for _, name := range list {
		if _, err := os.Stat(name); err == nil {
			left = append(left, name)
		}
	}
	return left
}

// TestRemoved: cgroups are removed at the end. Those of a program that was killed are removed by the next program with
// limits, unless somebody uses them.
func TestRemoved(t *testing.T) {
	testenv.Leaks(t)
	var first, second Host
	defer second.Close()
	x := hold(t, &first)
	names := dirs(t, x)
	if len(names) == 0 || len(there(names)) != len(names) {
		t.Fatalf("there are %q of %q", there(names), names)
	}
	y := hold(t, &second)
	if left := there(names); len(left) != len(names) {
		t.Errorf("another program removed cgroups in use: %q are left of %q", left, names)
	}
	others := dirs(t, y)
	y.End()
	if left := there(others); left != nil {
		t.Errorf("%q stay", left)
	}
	// What the kernel does for a program that is killed: its descriptors and locks go.
	for _, g := range x.v1 {
		g.Abandon()
	}
	if x.own != nil {
		x.own.Abandon()
	}
	var third Host
	hold(t, &third).End()
	third.Close()
	// Another program that begins just now may remove them instead: nobody else can lock them meanwhile.
	testenv.Eventually(t, "the end of what a killed program left", func() bool { return there(names) == nil })
	x.End()
	first.Close()
	if _, err := first.Hold(limits.Limits{PIDs: 1}, nil, nil, false); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed host: %v", err)
	}
}

// TestOutside: a limit applies to the processes in its cgroup, and to no others.
func TestOutside(t *testing.T) {
	testenv.Leaks(t)
	var h Host
	defer h.Close()
	x := hold(t, &h)
	before, _ := os.ReadFile("/proc/self/cgroup")
	list := x.End()
	after, _ := os.ReadFile("/proc/self/cgroup")
	if string(before) != string(after) || len(list) != 2 || list[0].Hit || list[1].Hit {
		t.Errorf("%s, %s, %+v", before, after, list)
	}
}

// TestLater: a command that is about to start gets its limits, even if another one needs more controllers meanwhile.
func TestLater(t *testing.T) {
	testenv.Leaks(t)
	var h Host
	defer h.Close()
	x, err := h.Hold(limits.Limits{PIDs: 5}, nil, nil, false)
	if err != nil {
		testenv.Skip(t, "cgroup controllers", err.Error())
	}
	defer x.End()
	y, err := h.Hold(limits.Limits{PIDs: 5, Memory: 32 << 20}, nil, nil, false)
	if err != nil {
		testenv.Skip(t, "cgroup controllers", err.Error())
	}
	defer y.End()
	for _, hold := range []*Hold{x, y} {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := hold.Place(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		if hold.scope != nil && !hold.own.Has(cmd.Process.Pid) {
			t.Error("it was not moved to its cgroup")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
