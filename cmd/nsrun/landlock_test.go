//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// containerFilter is what the filter of a container without CAP_SYS_ADMIN refuses by default: namespaces, mounts, and
// access to other processes.
func containerFilter() []byte {
	b := refuse(unix.ENOSYS, unix.SYS_CLONE3)
	b = b[:len(b)-8]
	more := refuse(unix.EPERM, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE,
		unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_KEYCTL,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_QUOTACTL, unix.SYS_OPEN_BY_HANDLE_AT)
	b = append(b, more[8:len(more)-8]...) // the number is loaded already
	add := func(code uint16, jt, jf byte, k uint32) {
		b = append(binary.NativeEndian.AppendUint16(b, code), jt, jf)
		b = binary.NativeEndian.AppendUint32(b, k)
	}
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 3, unix.SYS_CLONE)
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 16)
	add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, namespaces)
	add(unix.BPF_RET|unix.BPF_K, 0, 0, 0x50000|uint32(unix.EPERM))
	add(unix.BPF_RET|unix.BPF_K, 0, 0, 0x7fff0000)
	return b
}

// containerCaps are the capabilities that root has in a container by default.
var containerCaps = []string{"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
	"NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}

// inContainer runs the nsrun command as in a container with a filter.
func inContainer(t *testing.T, bin, dir string, filter []byte, args ...string) ran {
	t.Helper()
	file := filepath.Join(dir, "filter")
	if err := os.WriteFile(file, filter, 0o644); err != nil {
		t.Fatal(err)
	}
	outer := []string{"--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--seccomp-file", file}
	if testenv.Root() {
		outer = append(outer, "--cap-drop", "ALL")
		for _, name := range containerCaps {
			outer = append(outer, "--cap-add", "CAP_"+name)
		}
	}
	c := command(append(append(outer, "--", filepath.Join(bin, "nsrun")), args...)...)
	c.Dir, c.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir)
	return runs(t, bin, "nsrun", c)
}

// TestContainer: if a filter refuses namespaces and mounts, as in containers, commands run without them, and one line
// says so.
func TestContainer(t *testing.T) {
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/a: old\n", "report", "secret/s: s")
	report := filepath.Join(dir, "report")
	const script = `echo new >a; mkdir -m 700 d; mv a d/b; cat d/b; stat -c %a d; echo x >>"$0" || echo kept; (setsid sleep 1000 &) ; exit 3`
	backend := func() (list []string) {
		b, err := os.ReadFile(report)
		var r struct {
			Backend string
			Engine  string
			Missing []string
			Changes []struct{ Kind, Path string }
		}
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		list = append(list, r.Backend, r.Engine)
		for _, c := range r.Changes {
			list = append(list, c.Kind+" "+c.Path)
		}
		return list
	}
	args := []string{"run", "--discard", "--report", report, "--", "/bin/sh", "-c", script, filepath.Join(dir, "secret/s")}
	got := inContainer(t, bin, dir, containerFilter(), args...)
	// What nsrun says can come between the command's lines.
	lines := strings.Split(got.out, "\n")
	said := slices.Contains(lines, "new") && slices.Contains(lines, "700") && slices.Contains(lines, "kept")
	if got.status != 3 || !said || strings.Count(got.out, "this host allows no namespaces: ") != 1 {
		t.Errorf("status %d\n%s", got.status, got.out)
	}
	if got := strings.Join(backend(), ", "); got != "landlock, copy, deleted a, added d, added d/b" {
		t.Errorf("the report: %s", got)
	}
	// A session goes on in another command, which finds out again that there are no namespaces.
	if got := inContainer(t, bin, dir, containerFilter(), "run", "-q", "--keep", "--", "/bin/sh", "-c", "echo kept >k"); got.status != 0 || !strings.Contains(got.out, "this host allows no namespaces") {
		t.Errorf("keep: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, containerFilter(), "run", "-q", "--session", "last", "--commit", "--", "/bin/sh", "-c", "cat k; echo more >>k"); got.status != 0 || !strings.Contains(got.out, "kept\n") {
		t.Errorf("the second command: status %d\n%s", got.status, got.out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "project/k")); string(b) != "kept\nmore\n" {
		t.Errorf("after the commit: %q, %v", b, err)
	}
	// What was asked for is held, or not run.
	if got := inContainer(t, bin, dir, containerFilter(), "run", "--backend", "native", "--discard", "--", "true"); got.status != 125 || !strings.Contains(got.out, "operation not permitted") {
		t.Errorf("native: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, containerFilter(), "run", "--publish", "8080", "--discard", "--", "true"); got.status != 125 || !strings.Contains(got.out, "namespaces are needed for publishing ports (try: run nsrun outside of the container or chroot, or start the container with docker run") {
		t.Errorf("a port: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, containerFilter(), "run", "--sandbox", "preferred", "--discard", "--", "true"); got.status != 0 || strings.Contains(got.out, "NO SANDBOX") {
		t.Errorf("preferred: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, containerFilter(), "doctor"); got.status != 0 || !strings.Contains(got.out, "\nCommands run without namespaces (--backend landlock)") {
		t.Errorf("doctor: status %d\n%s", got.status, got.out)
	}
	// No Landlock either: nothing is run, in words.
	neither := containerFilter()
	neither = append(append(neither[:8:8], refuse(unix.EOPNOTSUPP, unix.SYS_LANDLOCK_CREATE_RULESET)[8:24]...), neither[8:]...)
	if got := inContainer(t, bin, dir, neither, "run", "--discard", "--", "true"); got.status != 125 || !strings.Contains(got.out, "operation not permitted (") {
		t.Errorf("without Landlock: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, neither, "run", "--backend", "landlock", "--discard", "--", "true"); got.status != 125 || !strings.Contains(got.out, "this machine has no landlock scopes") {
		t.Errorf("Landlock without Landlock: status %d\n%s", got.status, got.out)
	}
	if got := inContainer(t, bin, dir, neither, "doctor"); got.status != 1 || strings.Contains(got.out, "without namespaces") {
		t.Errorf("doctor without Landlock: status %d\n%s", got.status, got.out)
	}
	// The control: without the filter there are namespaces.
	if got := inContainer(t, bin, dir, refuse(unix.ENOSYS, unix.SYS_CLONE3), args...); got.status != 3 {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
	if got := backend(); got[0] != "native" {
		t.Errorf("the control: %v", got)
	}
}

// TestLandlockKilled: when nsrun is killed, no process of a command without namespaces stays, not even one that ignores
// signals and has left its parents and its session.
func TestLandlockKilled(t *testing.T) {
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/")
	const script = `(setsid sh -c 'trap "" TERM HUP INT; echo $$ >pid.new; mv pid.new pid; while :; do sleep 1000; done' </dev/null >&- 2>&- &) ; exec sleep 1000`
	pid := filepath.Join(dir, "project/pid")
	left := func(start func() *exec.Cmd, signal os.Signal) int {
		_ = os.Remove(pid)
		c := start()
		testenv.Eventually(t, "the background process", func() bool { _, err := os.Stat(pid); return err == nil })
		_ = c.Process.Signal(signal)
		_ = c.Wait()
		b, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	start := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command(args[0], args[1:]...)
			c.Dir, c.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	nsrun := []string{filepath.Join(bin, "nsrun"), "run", "--backend", "landlock", "--direct", "-q", "--", "/bin/sh", "-c", script}
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		n := left(start(nsrun...), signal)
		testenv.Eventually(t, "its end", func() bool { return !testenv.Alive(n) })
	}
	n := left(start("/bin/sh", "-c", script), syscall.SIGKILL)
	if !testenv.Alive(n) {
		t.Error("the control: the process ended by itself")
	}
	_ = syscall.Kill(-n, syscall.SIGKILL)
	testenv.Eventually(t, "the end of the control", func() bool { return !testenv.Alive(n) })
}
