//go:build linux

package nsexec_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

var namespaceNames = []struct {
	ns   nsexec.Namespace
	name string
}{
	{nsexec.User, "user"}, {nsexec.PID, "pid"}, {nsexec.Net, "net"}, {nsexec.IPC, "ipc"}, {nsexec.UTS, "uts"}, {nsexec.Cgroup, "cgroup"},
}

// TestShare: each namespace is the caller's where it is shared, and new where not.
func TestShare(t *testing.T) {
	bothWays(t, func(t *testing.T, classic bool) {
		shares := []nsexec.Namespace{0}
		for _, n := range namespaceNames {
			if n.ns == nsexec.User && !testenv.Root() {
				continue // nothing could be made without one
			}
			shares = append(shares, n.ns)
		}
		if testenv.Root() {
			shares = append(shares, nsexec.All, nsexec.All&^nsexec.Net)
		} else {
			shares = append(shares, nsexec.All&^nsexec.User)
		}
		for _, share := range shares {
			c := shell("cd /proc/self/ns; readlink user pid net ipc uts cgroup mnt")
			sandbox.Of(c).ClassicMounts, c.Share = classic, share
			c.Mounts = mounts.Plan{mounts.ROBind("/", "/")}
			got := strings.Split(output(t, c), "\n")
			if len(got) != 7 {
				t.Fatalf("%q", got)
			}
			for i, n := range namespaceNames {
				own, err := os.Readlink("/proc/self/ns/" + n.name)
				if err != nil {
					t.Fatal(err)
				}
				if shared := got[i] == own; shared != (share&n.ns != 0) {
					t.Errorf("share %b: %s is shared: %v", share, n.name, shared)
				}
			}
			if own, _ := os.Readlink("/proc/self/ns/mnt"); got[6] == own {
				t.Error("the mount namespace is the caller's")
			}
		}
	})
}

// TestShareUserRefused: without a user namespace an ordinary user cannot make
// others, and is told so.
func TestShareUserRefused(t *testing.T) {
	testenv.NeedUser(t)
	leaks(t)
	c := shell("true")
	c.Share = nsexec.User
	err := c.Run()
	if e, ok := errors.AsType[*nsexec.Error](err); !ok || e.Op != nsexec.StepClone || !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v", err)
	}
}

// status is a script that prints lines of /proc/self/status.
func status(names string) string { return "grep -E '^(" + names + "):' /proc/self/status" }

func TestCapabilities(t *testing.T) {
	leaks(t)
	some, err := nsexec.ParseCapabilities("CAP_NET_ADMIN, kill,cap_sys_admin")
	if err != nil {
		t.Fatal(err)
	}
	if got := some.String(); got != "cap_kill,cap_net_admin,cap_sys_admin" {
		t.Errorf("String is %s", got)
	}
	all, err := nsexec.ParseCapabilities("all")
	if err != nil || all != nsexec.AllCapabilities() || all&(1<<unix.CAP_CHECKPOINT_RESTORE) == 0 {
		t.Errorf("all is %x, %v", all, err)
	}
	for _, bad := range []string{"", "cap_", "nonsense", "kill,,kill", "cap_kill x"} {
		if set, err := nsexec.ParseCapabilities(bad); !errors.Is(err, nsexec.ErrCapability) || set != 0 {
			t.Errorf("%q is %v, %v", bad, set, err)
		}
	}
	for _, set := range []nsexec.Capabilities{0, some, all, 1} {
		for _, pid1 := range []bool{false, true} {
			for _, ids := range []string{"", "root", "user"} {
				c := shell(status("CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs"))
				c.Capabilities, sandbox.Of(c).AsPID1 = set, pid1
				switch ids {
				case "root": // which execve treats otherwise
					c.UIDMap, c.GIDMap = []nsexec.IDMap{{0, uint32(os.Getuid()), 1}}, []nsexec.IDMap{{0, uint32(os.Getgid()), 1}}
				case "user":
					c.UIDMap, c.GIDMap = []nsexec.IDMap{{1000, uint32(os.Getuid()), 1}}, []nsexec.IDMap{{1000, uint32(os.Getgid()), 1}}
					c.Credential = &nsexec.Credential{UID: 1000, GID: 1000}
				}
				v := fmt.Sprintf("%016x", uint64(set))
				want := "CapInh:\t" + v + "\nCapPrm:\t" + v + "\nCapEff:\t" + v + "\nCapBnd:\t" + v + "\nCapAmb:\t" + v + "\nNoNewPrivs:\t1"
				check(t, c, want)
			}
		}
	}
}

// TestNoNewPrivileges: a set-user-id program gives nothing; outside it does.
func TestNoNewPrivileges(t *testing.T) {
	testenv.NeedRoot(t)
	bothWays(t, func(t *testing.T, classic bool) {
		dir := testenv.Dir(t)
		b, err := os.ReadFile("/usr/bin/id")
		if err != nil {
			t.Fatal(err)
		}
		for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) { // as far as it is the tests' own
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		setuid := write(t, 0o755, string(b), dir, "id")
		if err := os.Chmod(setuid, 0o4755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		control := exec.Command(setuid, "-u")
		control.SysProcAttr = asNobody()
		if out, err := control.CombinedOutput(); string(out) != "0\n" {
			t.Fatalf("the control's user id is %q, %v", out, err)
		}
		c := nsexec.Command(setuid, "-u")
		sandbox.Of(c).ClassicMounts = classic
		c.Mounts = base()
		c.Credential = &nsexec.Credential{UID: 65534, GID: 65534}
		check(t, c, "65534")
	})
}

func TestCredential(t *testing.T) {
	leaks(t)
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	const ids = "id -u; id -g; " + `grep -E '^(Uid|Gid|Groups):' /proc/self/status | tr -d '\n'`
	c := shell("id -u; id -g")
	check(t, c, fmt.Sprintf("%d\n%d", uid, gid))
	c = shell(ids)
	c.UIDMap, c.GIDMap = []nsexec.IDMap{{0, uid, 1}}, []nsexec.IDMap{{0, gid, 1}}
	c.Credential = &nsexec.Credential{}
	if out := output(t, c); !strings.HasPrefix(out, "0\n0\nUid:\t0\t0\t0\t0Gid:\t0\t0\t0\t0Groups:\t") {
		t.Errorf("got %q", out)
	}
	if !testenv.Root() {
		return
	}
	c = shell(ids)
	c.Credential = &nsexec.Credential{UID: 1234, GID: 5678, Groups: []uint32{7, 8}}
	check(t, c, "1234\n5678\nUid:\t1234\t1234\t1234\t1234Gid:\t5678\t5678\t5678\t5678Groups:\t7 8 ")
	c = shell(ids)
	c.Credential = &nsexec.Credential{UID: 1234, GID: 5678}
	check(t, c, "1234\n5678\nUid:\t1234\t1234\t1234\t1234Gid:\t5678\t5678\t5678\t5678Groups:\t ")
	// Ids of others are what they are.
	dir := testenv.Dir(t)
	f := write(t, 0o644, "", dir, "f")
	if err := os.Chown(f, 4321, 8765); err != nil {
		t.Fatal(err)
	}
	check(t, shell("stat -c '%u %g' "+f), "4321 8765")
	c = shell("cat /proc/self/uid_map /proc/self/gid_map | tr -s ' '; id -u")
	c.UIDMap, c.GIDMap = []nsexec.IDMap{{0, 1000, 10}, {100, 0, 1}}, []nsexec.IDMap{{0, 2000, 5}, {100, 0, 1}}
	c.Credential = &nsexec.Credential{UID: 100, GID: 1}
	check(t, c, " 0 1000 10\n 100 0 1\n 0 2000 5\n 100 0 1\n100")
}

// TestDefaultFilter tries what the filter is about, without it and with it.
func TestDefaultFilter(t *testing.T) {
	leaks(t)
	run := func(filters ...nsexec.Filter) map[string]string {
		c := helper("calls")
		c.Seccomp = filters
		c.Capabilities = nsexec.AllCapabilities() // so that it is the filter that refuses
		got := make(map[string]string)
		for line := range strings.Lines(output(t, c)) {
			call, result, _ := strings.Cut(strings.TrimSpace(line), " ")
			got[call] = result
		}
		return got
	}
	without, with := run(), run(nsexec.DefaultFilter())
	for call, want := range map[string]string{
		"clone-newuser": "EPERM", "unshare-user": "EPERM", "unshare-files": "done", "clone3": "ENOSYS", "mount": "EPERM",
		"open_tree": "EPERM", "setns": "EPERM", "io_uring_setup": "ENOSYS", "keyctl": "EPERM", "bpf": "EPERM",
		"perf_event_open": "EPERM", "userfaultfd": "EPERM", "vsock": "EAFNOSUPPORT", "vsock-high": "EAFNOSUPPORT", "unix": "done",
		"x32-getpid": "ENOSYS", "ptrace": "ESRCH",
		"scheduler-pid1": "EPERM", "param-pid1": "EPERM", "attr-pid1": "EPERM", "affinity-pid1": "EPERM", "nice-pid1": "EPERM", "nice-group": "EPERM",
		"ioprio-pid1": "EPERM", "ioprio-user": "EPERM", "nice-own": "done", "ioprio-own": "done",
	} {
		if !auditX32 && call == "x32-getpid" {
			continue
		}
		if with[call] != want {
			t.Errorf("%s: %s, want %s", call, with[call], want)
		}
		switch call {
		case "unshare-files", "unix", "ptrace", "x32-getpid", "vsock", "vsock-high", "io_uring_setup", "userfaultfd", "bpf", "perf_event_open", "nice-own", "ioprio-own":
			// Fine in both, or this kernel may not have it.
		default:
			if without[call] == want {
				t.Errorf("%s: %s without the filter too", call, without[call])
			}
		}
	}
	// Ordinary programs do not notice one filter, or several filters.
	c := shell("ls / >/dev/null; (echo sub | cat); sleep 0.01 & wait; echo fine")
	c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter(), refuse(unix.SYS_SYNC, unix.EPERM)}
	check(t, c, "sub\nfine")
	// PID 1 and the set-up need not pass filters.
	c = shell("sleep 0.01 & wait; echo fine; exit 3")
	for _, nr := range []uint32{unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_CAPSET, unix.SYS_CLOSE_RANGE, unix.SYS_PRCTL, unix.SYS_UMASK, unix.SYS_CLOCK_GETTIME} {
		c.Seccomp = append(c.Seccomp, refuse(nr, unix.EPERM))
	}
	if out, err := c.CombinedOutput(); string(out) != "fine\n" || err == nil || err.Error() != "exit status 3" {
		t.Errorf("%q, %v", out, err)
	}
	c = shell(status("Seccomp|Seccomp_filters"))
	c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter(), refuse(unix.SYS_SYNC, unix.EPERM)}
	check(t, c, "Seccomp:\t2\nSeccomp_filters:\t2")
}

func TestUmask(t *testing.T) {
	leaks(t)
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	nsexec.Shutdown() // the launcher inherits it
	check(t, shell("umask"), "0027")
	for _, m := range []int{0, 0o77, 0o22} {
		c := shell("umask")
		c.Umask = &m
		check(t, c, fmt.Sprintf("%04o", m))
	}
}

func TestHostname(t *testing.T) {
	leaks(t)
	c := shell("hostname 2>/dev/null || cat /proc/sys/kernel/hostname")
	c.Hostname = "in-here"
	check(t, c, "in-here")
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if own == "in-here" {
		t.Error("the host was renamed")
	}
	check(t, shell("cat /proc/sys/kernel/hostname"), own)
}

func TestLoopback(t *testing.T) {
	leaks(t)
	check(t, helper("loopback"), "hello\nhello\nunreachable")
	check(t, shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
}

func TestRlimits(t *testing.T) {
	leaks(t)
	c := shell("ulimit -Sn; ulimit -Hn; ulimit -c")
	c.Rlimits = []nsexec.Rlimit{{unix.RLIMIT_NOFILE, 64, 128}, {unix.RLIMIT_CORE, 0, 0}}
	check(t, c, "64\n128\n0")
	// The set-up does not suffer from what the command gets.
	c = shell("ulimit -n")
	c.Rlimits = []nsexec.Rlimit{{unix.RLIMIT_NOFILE, 4, 4}}
	check(t, c, "4")
	c = shell("head -c 100000 /dev/zero > /mnt/f")
	c.Rlimits = []nsexec.Rlimit{{unix.RLIMIT_FSIZE, 4096, 4096}}
	if err := c.Run(); err == nil {
		t.Error("a file grew larger than its limit")
	}
}

func TestSession(t *testing.T) {
	leaks(t)
	const script = "read pid comm state ppid pgrp session rest < /proc/self/stat; echo $ppid $pgrp $session"
	// PID 1 leads a session of its own where there is no terminal.
	check(t, shell(script), "1 1 1")
	c := shell(script)
	sandbox.Of(c).SameSession = true
	check(t, c, "1 0 0") // of the caller: not visible from here
	c = shell(script)
	sandbox.Of(c).SameSession, c.NewSession = true, true
	check(t, c, "1 1 1")
}

// TestOwnGroup: a command cannot reach its caller through the process group they
// would share. The control shares it.
func TestOwnGroup(t *testing.T) {
	leaks(t)
	for _, same := range []bool{false, true} {
		neighbour := exec.Command("sleep", "1000")
		neighbour.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := neighbour.Start(); err != nil {
			t.Fatal(err)
		}
		// The embedding helper joins the group of the neighbour.
		c := exec.Command(exe, strconv.FormatBool(same))
		c.Env = append(os.Environ(), helperVars("group")...)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: neighbour.Process.Pid}
		out, err := c.CombinedOutput()
		_ = neighbour.Process.Kill()
		_ = neighbour.Wait()
		ws := neighbour.ProcessState.Sys().(syscall.WaitStatus)
		if hit := ws.Signal() == syscall.SIGUSR1; hit != same {
			t.Errorf("same session %v: the neighbour ended with %v; %v %s", same, neighbour.ProcessState, err, out)
		}
	}
}

func TestAsPID1(t *testing.T) {
	leaks(t)
	c := shell("echo $$ $PPID; ls -d /proc/[0-9]*")
	sandbox.Of(c).AsPID1 = true
	if got := output(t, c); got != "1 0\n/proc/1" && !strings.HasPrefix(got, "1 0\n/proc/1\n") {
		t.Errorf("got %q", got)
	}
	check(t, shell("echo $PPID"), "1")
}

// TestReaping: orphans become children of PID 1, which waits for them.
func TestReaping(t *testing.T) {
	leaks(t)
	c := shell(`for i in 1 2 3 4 5; do (sleep 0.01 & echo $! ) ; done > /mnt/pids
		for i in $(seq 200); do
			alive=0
			for p in $(cat /mnt/pids); do [ -e /proc/$p ] && alive=1; done
			[ $alive = 0 ] && echo reaped && exit
			sleep 0.01
		done
		ps 2>/dev/null; cat /proc/[0-9]*/stat`)
	check(t, c, "reaped")
}

// TestFirstProcessIsClosed: PID 1 holds nothing, and nobody in the sandbox gets at
// it. The same attempts succeed on a process of the command's own.
func TestFirstProcessIsClosed(t *testing.T) {
	for _, caps := range []nsexec.Capabilities{0, nsexec.AllCapabilities()} {
		t.Run(caps.String(), func(t *testing.T) {
			leaks(t)
			t.Setenv("NSRUN_TEST_SECRET", "do not tell")
			c := helper("trace", "1")
			c.Capabilities = caps
			for line := range strings.Lines(output(t, c)) {
				switch f := strings.Fields(line); f[len(f)-1] {
				case "EPERM", "EACCES", "EROFS":
				default:
					t.Errorf("PID 1: %s", line)
				}
			}
			control := nsexec.Command("sh", "-c", `sleep 100 & until read name </proc/$!/comm && [ "$name" = sleep ]; do :; done; exec "$0" $!`, exe)
			control.Mounts = base()
			control.Env = append(nsexec.BaseEnv(), helperVars("trace", "NSRUN_TEST_SECRET=do not tell")...)
			control.Capabilities = caps
			out := output(t, control)
			for _, want := range []string{"environ:", "NSRUN_TEST_SECRET=do not tell", "fd done", "root done", "maps done"} {
				if !strings.Contains(out, want) {
					t.Errorf("the control says %s", out)
				}
			}
			// What it is, as far as anybody may know.
			check(t, shell("grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Threads|SigCgt)' /proc/1/status | tr -d ' \\n\\t'"),
				"Threads:1SigCgt:0000000000000000CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1")
		})
	}
}

// TestLauncherIsClosed: a command that shares the PID namespace sees the launcher
// and the program, and gets at neither.
func TestLauncherIsClosed(t *testing.T) {
	leaks(t)
	t.Setenv("NSRUN_TEST_SECRET", "do not tell")
	if err := shell("true").Run(); err != nil {
		t.Fatal(err)
	}
	pids := []int{os.Getpid(), launcher(t)}
	for _, pid := range pids {
		c := helper("trace", strconv.Itoa(pid))
		c.Share = nsexec.PID
		c.Mounts = base()[:1]
		out := output(t, c)
		if strings.Contains(out, "do not tell") || strings.Contains(out, "done") {
			t.Errorf("the command sees process %d (this is %d):\n%s", pid, pids[0], out)
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[1]))
	if err != nil || strings.Contains(string(b), "SECRET") {
		t.Errorf("the launcher's environment: %q, %v", b, err)
	}
}

// launcher is the process id of this process's launcher.
func launcher(t testing.TB) int {
	t.Helper()
	pid := 0
	// One that was just started has its name soon.
	testenv.Eventually(t, "there is no launcher", func() bool {
		for _, p := range testenv.Processes() {
			b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid), "cmdline"))
			if p.Parent == os.Getpid() && strings.HasPrefix(string(b), "nsrun:launcher\x00") && isLauncher(p.Pid) {
				pid = p.Pid
			}
		}
		return pid != 0
	})
	return pid
}

// isLauncher tells the launcher from its clones, which have its name: it is in
// this process's namespaces.
func isLauncher(pid int) bool {
	own, err1 := os.Readlink("/proc/self/ns/user")
	ns, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return err1 == nil && err2 == nil && own == ns
}

// TestPrivateMemory: PID 1 is small.
func TestPrivateMemory(t *testing.T) {
	testenv.NeedRoot(t) // nobody else may look
	leaks(t)
	if testenv.RaceDetector {
		t.Log("the race detector's memory is counted too")
		return
	}
	for _, who := range []string{"first", "next"} {
		c := shell("echo; read x")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		started(t, c)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); slices.Contains([]string{"Private_Clean:", "Private_Dirty:"}, f[0]) {
				n, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				total += n
			}
		}
		t.Logf("%s: %d KiB", who, total)
		if total == 0 || total > 512 {
			t.Errorf("%s: %d KiB of private memory, at most 512 are wanted", who, total)
		}
		in.Close()
		_ = c.Wait()
	}
}

// TestOpenFiles: the command has the limit of open files that this program was executed with, not the one that the Go
// runtime gave it. The set-up, in a clone of the launcher, makes do with a low one, too.
func TestOpenFiles(t *testing.T) {
	const again = "NSRUN_TEST_OPEN_FILES"
	limit := os.Getenv(again)
	if limit == "" {
		for _, limit := range []string{"256", "48"} {
			c := exec.Command("sh", "-c", `ulimit -Sn $1; exec "$0" -test.run='^TestOpenFiles$'`, os.Args[0], limit)
			c.Env = append(os.Environ(), again+"="+limit)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", limit, err, out)
			}
		}
		return
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil || now.Cur <= 256 && now.Max > 257 {
		t.Errorf("%+v, %v: the runtime does not raise the limit", now, err)
	}
	start := func() ([]byte, error) {
		return in(true, base(), "ulimit -Sn").Output() // with descriptors at numbers that the Program chooses
	}
	if out, err := start(); err != nil || string(out) != limit+"\n" {
		t.Errorf("%s, %v; want %s", out, err, limit)
	}
	// The program may later set a limit that is lower than the launcher's, or higher.
	for _, n := range []uint64{min(now.Max, 1024), 64, now.Max} {
		now.Cur = n
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
			t.Fatal(err)
		}
		if _, err := start(); err != nil {
			t.Errorf("with %d: %v", n, err)
		}
	}
}
