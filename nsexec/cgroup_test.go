//go:build linux

package nsexec_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// newCgroup makes a cgroup v2 in a mount of the test's own, and returns its directory.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	testenv.NeedRoot(t)
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		testenv.Skip(t, string(features.CgroupV2), "no cgroup v2 can be mounted: "+err.Error())
	}
	name := filepath.Join(root, "nsexec-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nsexec.Shutdown()
		dir.Close()
		testenv.Eventually(t, "the cgroup is empty", func() bool { return os.Remove(name) == nil })
		if err := unix.Unmount(root, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func procs(t *testing.T, dir *os.File) string {
	t.Helper()
	b, err := os.ReadFile(dir.Name() + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCgroup: all of the sandbox is in it, and to itself it is the root.
func TestCgroup(t *testing.T) {
	leaks(t)
	dir := newCgroup(t)
	for range 2 { // the second one would have been made ready
		c := shell("while read l; do case $l in 0::*) echo $l; esac; done </proc/self/cgroup; read line")
		c.Cgroup = dir
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 64)
		n, err := out.Read(line)
		if err != nil || string(line[:n]) != "0::/\n" {
			t.Errorf("the cgroup is %q, %v", line[:n], err)
		}
		if list := strings.Fields(procs(t, dir)); len(list) != 2 || list[0] != strconv.Itoa(c.Process.Pid) {
			t.Errorf("in the cgroup are %v, want PID 1 (%d) and the shell", list, c.Process.Pid)
		}
		in.Close()
		_ = c.Wait()
	}
	// And one without it is not.
	check(t, shell("grep -c nsexec-test /proc/self/cgroup || true"), "0")
}

// TestCgroupReady: what was made ready in a cgroup is the sandbox of the next command in there that is alike.
// Where that is not, or it was killed, another one is made, and it is gone.
func TestCgroupReady(t *testing.T) {
	leaks(t)
	dir := newCgroup(t)
	waiting := func() string { return strings.TrimSpace(procs(t, dir)) }
	command := func() *nsexec.Cmd {
		c := shell("read line")
		c.Cgroup = dir
		return c
	}
	for _, tc := range []struct {
		name   string
		change func(*nsexec.Cmd)
		same   bool
	}{
		{"alike", func(*nsexec.Cmd) {}, true},
		{"unlike", func(c *nsexec.Cmd) { c.Share = nsexec.IPC }, false},
		{"killed", func(*nsexec.Cmd) {
			pid, _ := strconv.Atoi(waiting())
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Error(err)
			}
			// Until then it can still receive what it is to execute, and whether it has begun that is not known.
			testenv.Eventually(t, "the killed one has ended", func() bool { return waiting() == "" })
		}, false},
	} {
		sandbox.Ready(command(), dir)
		ready := waiting()
		if strings.Contains(ready, "\n") || ready == "" {
			t.Fatalf("%s: in the cgroup wait %q", tc.name, ready)
		}
		c := command()
		tc.change(c)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		pid := strconv.Itoa(c.Process.Pid)
		if (pid == ready) != tc.same {
			t.Errorf("%s: the sandbox is %s, %s was ready", tc.name, pid, ready)
		}
		if list := strings.Fields(procs(t, dir)); len(list) != 2 {
			t.Errorf("%s: in the cgroup are %v", tc.name, list)
		}
		in.Close()
		_ = c.Wait()
	}
	sandbox.Ready(command(), dir)
	if waiting() == "" {
		t.Error("nothing is ready")
	}
	sandbox.Ready(command(), dir) // in place of the other one
	sandbox.Unready(dir)
	testenv.Eventually(t, "nothing waits in the cgroup", func() bool { return waiting() == "" })
	sandbox.Unready(dir)
}

// TestCgroupStays: not even root with all its capabilities in there gets out of it. What it can mount
// has its own cgroup as the root.
func TestCgroupStays(t *testing.T) {
	leaks(t)
	dir := newCgroup(t)
	script := `
		mkdir /mnt/c && mount -t cgroup2 c /mnt/c || echo no mount
		for procs in /mnt/c/cgroup.procs /mnt/c/../cgroup.procs "$0"/cgroup.procs "$0"/../cgroup.procs; do
			echo $$ >$procs
		done 2>/dev/null
		grep ^0:: /proc/self/cgroup`
	c := nsexec.Command("sh", "-c", script, dir.Name())
	c.Mounts = base()
	c.Capabilities = nsexec.AllCapabilities()
	c.Cgroup = dir
	check(t, c, "0::/")

	// The control: with a file system that can be written to it does. What says so is another one's view.
	c = nsexec.Command("sh", "-c", `echo $$ >"$0"/../cgroup.procs; grep ^0:: /proc/self/cgroup`, dir.Name())
	c.Mounts = base(mounts.Bind(filepath.Dir(dir.Name()), filepath.Dir(dir.Name())))
	c.Share = nsexec.Cgroup
	c.Cgroup = dir
	if got := output(t, c); strings.Contains(got, "nsexec-test") {
		t.Errorf("the control stays in %s", got)
	}
}

// TestCgroupRefused: a directory that is no cgroup is an error, and so is Inherit.
func TestCgroupRefused(t *testing.T) {
	leaks(t)
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := shell("true")
	c.Cgroup = f
	e, ok := errors.AsType[*nsexec.Error](c.Run())
	if !ok || e.Op != nsexec.StepClone || !errors.Is(e, unix.EBADF) {
		t.Errorf("got %v, want clone: %v", e, unix.EBADF)
	}
	c = shell("true")
	c.Cgroup, sandbox.Of(c).Inherit = f, true
	if err := c.Run(); err == nil {
		t.Error("Cgroup with Inherit is not an error")
	}
}

// TestHideAbstract: the host's abstract sockets cannot be reached, those made inside can.
func TestHideAbstract(t *testing.T) {
	leaks(t)
	name := "@nsexec-test-" + strconv.Itoa(os.Getpid())
	ln, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	run := func(hide bool) string {
		c := helper("abstract", name)
		c.Share = nsexec.Net
		c.HideAbstract = hide
		out, err := c.Output()
		if e, ok := errors.AsType[*nsexec.Error](err); ok && e.Op == nsexec.StepLandlock {
			testenv.Skip(t, string(features.LandlockScopes), e.Error())
		}
		return string(out)
	}
	if got := run(false); got != "host's: <nil>\nown: <nil>\n" {
		t.Errorf("the control: %s", got)
	}
	if got := run(true); got != "host's: operation not permitted\nown: <nil>\n" {
		t.Errorf("got %s", got)
	}
}
