//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prerun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// What bubblewrap's callers rely on, and what differs by the way nsrun goes: without
// the Go runtime, or with it (an option that needs a descriptor).

// TestForgedReport: PID 1 of a drop-in is not a secret to the command, which can write to
// its status pipe. A failure reported there runs nothing a second time.
func TestForgedReport(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	// Right at the start PID 1 may still hold the output.
	forge := `out=$(readlink /proc/$$/fd/1); for f in /proc/1/fd/*; do case $(readlink $f) in "$out") ;; pipe:*) printf '\002\000\000\000\000\000\000\000\026\000\000\000\000\000\000\000' >$f && echo forged; esac; done; exit 3`
	for _, extra := range [][]string{nil, {"--die-with-parent"}, {"--lock-file", "/"}} {
		args := slices.Concat([]string{"--ro-bind", "/", "/", "--proc", "/proc", "--dev-bind", "/dev", "/dev", "--unshare-pid"}, extra, []string{"sh", "-c", forge})
		c := command(args...)
		c.Stdin = nil
		if got := runs(t, bin, "bwrap", c); got.status != 3 || strings.Count(got.out, "forged") != 1 {
			t.Errorf("%q: status %d\n%s", extra, got.status, got.out)
		}
	}
}

// TestForgedEarly: a command on PID 1's processor can write there before PID 1 has reported that it runs.
func TestForgedEarly(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	rounds := testenv.Rounds(2, 60)
	if prerun.Entered() { // there it reads the report earlier
		rounds = testenv.Rounds(20, 200)
	}
	for _, forged := range []struct {
		text string
		ends int // what the command ends with
	}{
		{`\002\000\000\000\000\000\000\000\026\000\000\000\000\000\000\000`, 3},   // a failure
		{`\002\000\000\000\000\000\000\000\026\000\000\000\000\000\000\000`, 125}, // and an end like that of a set-up that fails
		{`\005\000\000\000\020\000\000\000\000\000\000\000\000\000\000\000`, 125}, // a text, for which PID 1's report is taken
		{`\002\000\000\000\000\000\000\000`, 125},                                 // half a report
	} {
		forge := "echo once; for n in 3 4 5 6 7 8 9; do printf '" + forged.text + "' >/proc/1/fd/$n; done 2>/dev/null; exit " + strconv.Itoa(forged.ends)
		for _, extra := range [][]string{nil, {"--die-with-parent"}, {"--lock-file", "/"}} {
			args := slices.Concat([]string{"-c", strconv.Itoa(cpu), filepath.Join(bin, "bwrap"), "--ro-bind", "/", "/", "--proc", "/proc", "--dev-bind", "/dev", "/dev", "--unshare-pid"}, extra, []string{"sh", "-c", forge})
			for range rounds {
				// What it says about its own end may be wrong. It runs once.
				out, err := exec.Command("taskset", args...).Output()
				e := (*exec.ExitError)(nil)
				if !errors.As(err, &e) || string(out) != "once\n" || forged.ends == 3 && e.ExitCode() != 3 {
					t.Fatalf("%s, %d: %q: %v\n%s", forged.text, forged.ends, extra, err, out)
				}
			}
		}
	}
}

// TestKilledWhileBlocked: killing a sandbox that waits at --block-fd does not start another one.
func TestKilledWhileBlocked(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	dir := testenv.Dir(t)
	c := command("--dev-bind", "/", "/", "--unshare-pid", "--block-fd", "3", "touch", filepath.Join(dir, "ran"))
	c.Path = filepath.Join(bin, "bwrap")
	c.Args[0], c.Err = c.Path, nil
	c.ExtraFiles = []*os.File{r}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	// It waits where it sleeps for long.
	child, asleep := 0, 0
	testenv.Eventually(t, "a child that waits", func() bool {
		for _, p := range testenv.Processes() {
			if p.Parent != c.Process.Pid {
				continue
			}
			if asleep++; p.State != "S" || p.Pid != child {
				asleep = 0
			}
			child = p.Pid
		}
		return asleep >= 50
	})
	_ = unix.Kill(child, unix.SIGKILL)
	_ = w.Close() // which would let a second one go on
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != 128+int(unix.SIGKILL) || said.Len() > 0 {
		t.Errorf("status %d, %q", got, said.String()) // bubblewrap says nothing
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command was executed")
	}
}

// refuse is a seccomp filter under which these system calls fail.
func refuse(errno syscall.Errno, calls ...uint32) (b []byte) {
	return answer(unix.SECCOMP_RET_ERRNO|uint32(errno), calls...)
}

// answer is a filter with an action for these calls.
func answer(action uint32, calls ...uint32) (b []byte) {
	add := func(code uint16, jt, jf byte, k uint32) {
		b = append(binary.NativeEndian.AppendUint16(b, code), jt, jf)
		b = binary.NativeEndian.AppendUint32(b, k)
	}
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0)
	for _, nr := range calls {
		add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, nr)
		add(unix.BPF_RET|unix.BPF_K, 0, 0, action)
	}
	add(unix.BPF_RET|unix.BPF_K, 0, 0, 0x7fff0000)
	return b
}

// withCgo reports whether this program, which is the command under test, was built so.
func withCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// TestRefusedCalls: filters of containers refuse calls that they do not know, or
// cannot look into. Where an older one does as well, it is used; and the form with
// mount(2) leaves the caller's descriptors alone, whatever their numbers.
func TestRefusedCalls(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	file := filepath.Join(dir, "filter")
	run := func(extra []string, filter []byte) ran {
		if err := os.WriteFile(file, filter, 0o644); err != nil {
			t.Fatal(err)
		}
		bwrap := filepath.Join(bin, "bwrap")
		args := slices.Concat([]string{"--dev-bind", "/", "/", "--seccomp-file", file, "--", bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
			"--unshare-pid", "--unshare-ipc", "--tmpfs", "/tmp", "--perms", "0700", "--dir", "/tmp/a", "--chmod", "1777", "/tmp/a"}, extra,
			[]string{"sh", "-c", "stat -c %a /tmp/a; for i in $(seq 10 120); do [ -e /proc/self/fd/$i ] || echo lost $i; done"})
		c := command(args...)
		c.ExtraFiles = make([]*os.File, 7, 130) // low numbers for the set-up
		for len(c.ExtraFiles) < cap(c.ExtraFiles) {
			c.ExtraFiles = append(c.ExtraFiles, os.Stdin)
		}
		return runs(t, bin, "nsrun", c)
	}
	const clone3, mountSetattr, openTree, fchmodat2 = 435, 442, 428, 452
	for _, extra := range [][]string{nil, {"--lock-file", "/"}} {
		for _, e := range []syscall.Errno{unix.ENOSYS, unix.EPERM} {
			for i, nr := range []uint32{clone3, mountSetattr, openTree, fchmodat2} {
				if !testenv.Turn(i + len(extra)/2) {
					continue
				}
				if nr == clone3 && e == unix.EPERM && withCgo() {
					continue // the C library's threads need it then; the nsrun command has none
				}
				if got := run(extra, refuse(e, nr)); got.status != 0 || got.out != "1777\n" {
					t.Errorf("%q, call %d is refused with %v: status %d\n%s", extra, nr, e, got.status, got.out)
				}
			}
		}
	}
	// The command's filter is PID 1's too, which may not be able to report then.
	for _, option := range []string{"--unshare-pid", "--die-with-parent", "--as-pid-1"} {
		if err := os.WriteFile(file, refuse(unix.EPERM, unix.SYS_WRITE), 0o644); err != nil {
			t.Fatal(err)
		}
		c := command("--ro-bind", "/", "/", "--unshare-pid", option, "--seccomp-file", file, "sh", "-c", "exit 3")
		if got := runs(t, bin, "nsrun", c); got.status != 3 {
			t.Errorf("%s, write is refused: status %d\n%s", option, got.status, got.out)
		}
	}
	if err := os.WriteFile(file, refuse(unix.EPERM, unix.SYS_RT_SIGTIMEDWAIT), 0o644); err != nil {
		t.Fatal(err)
	}
	c := command("--ro-bind", "/", "/", "--unshare-pid", "--forward-signals", "--die-with-parent", "--seccomp-file", file, "sh", "-c", "exit 3")
	if got := runs(t, bin, "nsrun", c); got.status != 3 {
		t.Errorf("rt_sigtimedwait is refused: status %d\n%s", got.status, got.out)
	}
	// Control: the filter does something.
	if got := run(nil, refuse(unix.EPERM, unix.SYS_UNSHARE)); got.status != 1 {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}

// TestInherited: what the Go runtime changes at its start is as the caller had it.
func TestInherited(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	early := prerun.Entered()
	for _, extra := range []string{"", "--lock-file /"} {
		bwrap := filepath.Join(bin, "bwrap") + " --dev-bind / / --unshare-pid --proc /proc " + extra
		out := filepath.Join(dir, "out")
		c := command("-c", "trap '' PIPE TERM USR1; exec <&- >&-; exec "+bwrap+" sh -c 'grep SigIgn /proc/self/status >"+out+"; [ -e /proc/self/fd/1 ] || echo closed >>"+out+"'")
		if got := runs(t, bin, "/bin/sh", c); got.status != 0 {
			t.Fatalf("%q: status %d\n%s", extra, got.status, got.out)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(b))
		mask, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		want := uint64(1<<(unix.SIGPIPE-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGUSR1-1))
		if early && (mask&want != want || len(f) != 3) {
			t.Errorf("%q: %s", extra, b)
		}
		// Where the caller's directory is gone the command starts at home.
		gone := filepath.Join(dir, "gone")
		c = command("-c", "mkdir "+gone+" && cd "+gone+" && rmdir "+gone+" && HOME=/usr exec "+bwrap+" sh -c 'echo $PWD'")
		if got := runs(t, bin, "/bin/sh", c); got.out != "/usr\n" {
			t.Errorf("%q: status %d\n%s", extra, got.status, got.out)
		}
	}
}

// TestForgotten: --clearenv leaves no variable in memory of PID 1 that /proc shows, whichever way the program starts.
func TestForgotten(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	const secret = "OPEN_SESAME_4711"
	look := "tr '\\0' '\\n' </proc/1/environ; echo read; exit 3"
	for _, extra := range []string{"", "--lock-file /"} { // the second takes the Go runtime in any case
		for _, clear := range []string{"", "--clearenv"} {
			args := strings.Fields("--dev-bind / / --unshare-pid --proc /proc " + extra + " " + clear)
			c := command(append(args, "/bin/sh", "-c", "PATH=/usr/bin:/bin; "+look)...)
			c.Env = append(os.Environ(), "NSRUN_TEST_SECRET="+secret)
			got := runs(t, bin, "bwrap", c)
			if got.status != 3 || !strings.Contains(got.out, "read\n") {
				t.Errorf("%q: status %d\n%s", args, got.status, got.out)
			}
			if strings.Contains(got.out, secret) {
				t.Errorf("%q: PID 1 has the caller's environment", args)
			}
		}
	}
	// Control: such a process is one whose environment can be read.
	c := command("-c", "sh -c \"tr '\\0' '\\n' </proc/\\$PPID/environ; exit 3\"; exit 3")
	c.Env = append(os.Environ(), "NSRUN_TEST_SECRET="+secret)
	if got := runs(t, bin, "/bin/sh", c); !strings.Contains(got.out, secret) {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}

// TestClosedDescriptors: the set-up does not use descriptor numbers that the caller has closed.
func TestClosedDescriptors(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	for _, option := range []string{"--file N /tmp/x", "--bind-data N /tmp/x", "--seccomp N", "--add-seccomp-fd N", "--info-fd N", "--json-status-fd N"} {
		for _, fd := range []string{"3", "4", "5", "6", "200", "201"} {
			args := slices.Concat([]string{"--ro-bind", "/", "/", "--tmpfs", "/tmp", "--unshare-pid"}, strings.Fields(strings.ReplaceAll(option, "N", fd)), []string{"echo", "ran"})
			if got := runs(t, bin, "bwrap", command(args...)); got.status != 1 || !strings.HasSuffix(got.out, ": Bad file descriptor\n") {
				t.Errorf("%s, %s: status %d\n%s", option, fd, got.status, got.out)
			}
		}
	}
	for _, option := range []string{"--sync-fd", "--block-fd"} {
		for _, fd := range []string{"3", "4", "5", "6", "200", "201"} {
			if got := runs(t, bin, "bwrap", command("--ro-bind", "/", "/", "--unshare-pid", option, fd, "echo", "ran")); got.status != 0 || got.out != "ran\n" {
				t.Errorf("%s %s: status %d\n%s", option, fd, got.status, got.out)
			}
		}
	}
}
