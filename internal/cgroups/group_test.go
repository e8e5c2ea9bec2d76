//go:build linux

package cgroups

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestHolds(t *testing.T) {
	const (
		v2      = "31 23 0:28 / /sys/fs/cgroup rw shared:9 master:1 - cgroup2 none rw,nsdelegate"
		above   = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755"
		cpu     = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup  rw,cpuacct,cpu"
		account = "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct"
	)
	infos, err := mounts.ParseMountinfo([]byte(v2 + "\n" + above + "\n" + cpu + "\n" + account + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range infos {
		if holds(in, "") != (i == 0) || holds(in, "cpu") != (i == 2) {
			t.Errorf("%+v: v2: %t, cpu: %t", in, holds(in, ""), holds(in, "cpu"))
		}
	}
}

func TestInside(t *testing.T) {
	for _, c := range []struct{ top, own, want string }{
		{"/", "/", "."},
		{"/", "/user.slice/session-1.scope", "user.slice/session-1.scope"},
		{"/docker/x", "/docker/x", "."},
		{"/docker/x", "/docker/x/y", "y"},
		{"/docker/x", "/docker/xy", "."},
		{"/docker/x", "/other", "."},
		{"/", "/../other", "."},
		{"/..", "/a", "."},
	} {
		if got := inside(c.top, c.own); got != c.want {
			t.Errorf("%s seen from %s: %s, want %s", c.own, c.top, got, c.want)
		}
	}
}

// TestMountTree: where no cgroup v2 is mounted, one that nobody sees will do.
func TestMountTree(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	root, err := mountTree()
	if err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	parent, err := open(int(root), ".")
	root.Close()
	if err != nil {
		t.Fatal(err)
	}
	g, err := makeGroup(parent)
	if err != nil {
		t.Fatal(err)
	}
	if !g.holdsProcesses() {
		t.Error("the cgroup cannot hold processes")
	}
	// Nobody in use is taken away, and nobody's is.
	clean(g.parent)
	if _, err := g.Read("cgroup.procs"); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	if err := unix.Mkdirat(int(g.Dir.Fd()), "inner", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// TestCleaners: a cgroup is made even if another process takes it for a stale one meanwhile.
func TestCleaners(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	top, err := MakeTop()
	if err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	ended := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					clean(sys.FD(top.Dir.Fd()))
				}
			}
		})
	}
	for range 3000 {
		g, err := top.Child()
		if err != nil {
			t.Error(err)
			break
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
			break
		}
	}
	close(ended)
	all.Wait()
	if err := top.Remove(); err != nil {
		t.Error(err)
	}
}

// TestLockedByOthers: a command that sees the file system can open a cgroup for reading, and lock it. Whatever it
// locks, others can make cgroups, and no cgroup in use is removed. The control is that it gets the locks.
func TestLockedByOthers(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	top, err := MakeTop()
	if err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	g, err := top.Child()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "cgroup.procs"} {
		fd, err := unix.Openat(int(g.Dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("flock of %s: %v", name, err)
		}
		if name == "." {
			continue
		}
		read, write := unix.Flock_t{Type: unix.F_RDLCK}, unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &read); err != nil {
			t.Errorf("lock for reading: %v", err)
		}
		if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &write); err == nil {
			t.Error("the group can be locked for writing")
		}
	}
	lock, err := lockGroup(sys.FD(g.Dir.Fd()), unix.O_RDONLY, unix.F_RDLCK)
	if err != nil {
		t.Errorf("the free group cannot be locked: %v", err)
	}
	lock.Close()
	clean(sys.FD(top.Dir.Fd()))
	if _, err := g.Read("cgroup.procs"); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	if err := errors.Join(g.Remove(), top.Remove()); err != nil {
		t.Error(err)
	}
}

// TestEndWithoutKill: a kernel that cannot kill a cgroup at once ends it too, whatever number of processes is in it.
func TestEndWithoutKill(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	top, err := MakeTop()
	if err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	killFile = "no such file"
	defer func() { killFile = "cgroup.kill" }()
	const many = 1200 // more than a page of numbers
	cmd := exec.Command("/bin/sh", "-c", "read go; exec 3<&0; i=0; while [ $i -lt $0 ]; do read end <&3 & i=$((i+1)); done; echo; wait", strconv.Itoa(many))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start(), Write(int(top.Dir.Fd()), "cgroup.procs", strconv.Itoa(cmd.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Write([]byte("\n"))
	if n, err := out.Read(make([]byte, 1)); n == 0 {
		t.Fatal(err)
	}
	if err := top.End(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if err := top.Remove(); err != nil {
		t.Error(err)
	}
}

// TestRemoveLate: what got into a cgroup after its end, because a start that was given up is still under way, is ended
// too, and so is what is in a cgroup below.
func TestRemoveLate(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	top, err := MakeTop()
	if err != nil {
		testenv.Skip(t, "cgroup v2", err.Error())
	}
	child, err := top.Child()
	if err != nil {
		t.Fatal(err)
	}
	left, err := top.Child()
	if err != nil {
		t.Fatal(err)
	}
	drops := 0
	child.Drop = func(*os.File) { drops++ }
	if err := child.End(); err != nil {
		t.Error(err)
	}
	for _, g := range []*Group{child, left} {
		late := exec.Command("sleep", "1000")
		if err := late.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- late.Wait() }()
		t.Cleanup(func() { _ = late.Process.Kill(); <-ended })
		if err := Write(int(g.Dir.Fd()), "cgroup.procs", strconv.Itoa(late.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Remove(); err != nil || drops != 1 {
		t.Errorf("%v, dropped %d times", err, drops)
	}
	if err := top.Remove(); err != nil {
		t.Error(err)
	}
	left.close()
}
