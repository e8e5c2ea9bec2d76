//go:build linux

package nsrun_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestChangedRoot: root's command can change its root directory in a session. Renames of directories are still those of
// the caller's root and rights, whoever asked for one before.
func TestChangedRoot(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for _, own := range []bool{false, true} {
		dir := place(t, "r/old/f: in\n", "old/f: out\n", "r/theirs/d/f: t\n", "theirs/d/f: t\n", "sub/r/d/f: s\n")
		needOwnIDs(t, dir)
		livesIn(t, dir, "/srv")
		p := filepath.Join(dir, "p")
		for _, name := range []string{"r/theirs", "theirs"} {
			if err := os.Chown(filepath.Join(p, name), 1234, 1234); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(p, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r := runner(t, nsrun.Config{Project: p, OwnIDs: own})
		python := func(text string) string { return "python3 -c 'import os\n" + text + "'; " }
		const try = "def t(a, b):\n  try: os.rename(a, b)\n  except OSError as e: print(a, e.strerror)\n"
		for _, tc := range []struct{ name, script, want string }{
			{"from within, before anything else", python(try + "os.chroot(\"r\"); os.chdir(\"/\"); t(\"/theirs/d\", \"/theirs/e\"); t(\"theirs/e\", \"e\"); print(os.listdir(\"e\"))"), "['f']\n"},
			{"outside, after that", python(try + "t(\"theirs/d\", \"theirs/e\"); print(os.listdir(\"theirs/e\"))"), "['f']\n"},
			{"with the same name in both", python(try+"os.mkdir(\"/tmp/a\"); t(\""+p+"/sub\", \""+p+"/sub2\"); t(\""+p+"/sub2\", \""+p+"/sub\"); os.chroot(\"r\"); t(\"/old\", \"/new\"); print(os.listdir(\"/new\"))") + "cat old/f", "['f']\nout\n"},
			{"of a user", python(try + "os.chroot(\"r\"); os.chdir(\"/\"); os.setgroups([]); os.setgid(77); os.setuid(77); t(\"/new\", \"/newer\")"), "/new Permission denied\n"},
			{"back again", python(try + "at = os.open(\"/\", os.O_RDONLY); os.chroot(\"r\"); os.fchdir(at); os.chroot(\".\"); t(\"" + p + "/sub/r\", \"" + p + "/sub/s\"); print(os.listdir(\"" + p + "/sub/s/d\"))"), "['f']\n"},
		} {
			if got := printed(t, r, tc.script); got != tc.want {
				t.Errorf("own ids %v, %s: %q, want %q", own, tc.name, got, tc.want)
			}
		}
	}
}

// TestChangedRootGainsNothing: nothing that is hidden comes up in another root. Each attempt succeeds for root outside.
func TestChangedRootGainsNothing(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "hole/f: secret\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	testenv.Tree(t, dir, "home/.ssh/key: secret\n")
	p := filepath.Join(dir, "p")
	mark, err := os.CreateTemp("/var/tmp", "nsrun-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(mark.Name())
	defer mark.Close()
	if _, err := mark.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	climb := "at = os.open(\"/\", os.O_RDONLY); os.makedirs(\"a/b\", exist_ok=True); os.chroot(\"a\"); os.fchdir(at)\nfor i in range(50): os.chdir(\"..\")\nos.chroot(\".\"); "
	read := func(name string) string {
		return "print(open(\"" + name + "\").read().replace(\"secret\", \"won\"), end=\"\")"
	}
	for _, own := range []bool{false, true} {
		c := nsrun.Config{Project: p, OwnIDs: own, After: nsrun.Discard, Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "hole")}}}
		for _, tc := range []struct{ name, script string }{
			{"what is blocked", "os.chroot(\"hole\"); " + read("/f")},
			{"what is blocked, from above", "os.chroot(\"/\"); " + read(p+"/hole/f")},
			{"what is blocked, after climbing", climb + read(p+"/hole/f")},
			{"secrets of the home directory", "os.chroot(\"/srv\"); " + read("/.ssh/key")},
			{"the host's temporary files", climb + read(mark.Name())},
			{"the root of PID 1", "os.chroot(\"/proc/1/root\"); " + read(mark.Name())},
		} {
			script := "python3 -c 'import os\n" + tc.script + "'"
			// Root may be unable to look into the host's PID 1, but this process is its own.
			outside := strings.ReplaceAll(script, "/proc/1/", fmt.Sprintf("/proc/%d/", os.Getpid()))
			control, err := exec.Command("sh", "-c", "cd "+p+"; exec 2>&1; "+outside).Output()
			if string(control) != "won\n" {
				testenv.Skip(t, tc.name+" outside", fmt.Sprintf("%v, %s", err, control))
				continue
			}
			if got := printed(t, runner(t, c), script+"; grep -rs secret . /srv"); strings.Contains(got, "won") || strings.Contains(got, "secret") {
				t.Errorf("own ids %v, %s: %s", own, tc.name, got)
			}
		}
	}
}

// TestChangedRootUnseen: where nsrun may not look into PID 1, it measures memory in the root of another process. So
// none can change its root there. (Control: it can where nsrun may.)
func TestChangedRootUnseen(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	run := func() string {
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard})
		return printed(t, r, "chown 1:2 f; stat -c %u f; chroot / echo changed")
	}
	if got := run(); got != "1\nchanged\n" {
		t.Errorf("with the capability: %q", got)
	}
	runtime.LockOSThread()
	raise, ok := sys.Lower(1 << unix.CAP_SYS_PTRACE)
	if ok {
		if got := run(); !strings.HasPrefix(got, "1\n") || strings.Contains(got, "changed") {
			t.Errorf("without it: %q", got)
		}
	}
	if ok && raise() {
		runtime.UnlockOSThread()
	}
}

// TestTracedUsers: root's command traces its processes of other users, and not PID 1, which keeps the time limit.
// Whatever would let it look into PID 1 or change it, does so for a process of another user.
func TestTracedUsers(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const script = `import ctypes, os, signal, subprocess, sys
l = ctypes.CDLL(None, use_errno=True)
p = subprocess.Popen(["setpriv", "--reuid", "33", "--regid", "33", "--clear-groups", "sh", "-c", "echo ready; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdout.readline()
def seize(n):
    assert l.ptrace(0x4206, n, None, None) == 0 # PTRACE_SEIZE
    l.ptrace(17, n, None, None)
def vector(n):
    at = [r.split("-") for r in open("/proc/%d/maps" % n)][0][0]
    assert open("/proc/%d/mem" % n, "rb").seek(int(at, 16)) >= 0 and len(open("/proc/%d/mem" % n, "rb", 0).read(0)) == 0
def descriptor(n):
    fd = l.syscall(434, n, 0); assert fd >= 0
    assert l.syscall(438, fd, 0, 0) >= 0 # pidfd_getfd
ways = {"ptrace": seize, "memory": vector, "descriptor": descriptor, "environ": lambda n: open("/proc/%d/environ" % n).read(),
    "exe": lambda n: os.readlink("/proc/%d/exe" % n), "cwd": lambda n: os.listdir("/proc/%d/cwd" % n), "fds": lambda n: [os.readlink("/proc/%d/fd/%s" % (n, f)) for f in os.listdir("/proc/%d/fd" % n)][0],
    "stack": lambda n: open("/proc/%d/syscall" % n).read(), "limits": lambda n: open("/proc/%d/personality" % n).read()}
for n in (p.pid, 1):
    for name, way in ways.items():
        try: way(n); result = "yes"
        except (OSError, AssertionError, IndexError): result = "no"
        if (result == "yes") != (n != 1): print(name, n, result)
p.kill()
print("done")`
	for _, own := range []bool{false, true} {
		dir := place(t, "f: x\n", "s.py: "+script+"\n")
		needOwnIDs(t, dir)
		livesIn(t, dir, "/srv")
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), OwnIDs: own, After: nsrun.Discard})
		if got := printed(t, r, "python3 s.py"); got != "done\n" {
			t.Errorf("own ids %v: %s", own, got)
		}
	}
}

// TestChangedRootWhy: in another root a path means another file than in the policy. (Control: in the sandbox's root the
// refusal is told, before another process changes its root and afterwards.)
func TestChangedRootWhy(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "f: x\n", "r/f: y\n", "secret: s\n")
	needOwnIDs(t, dir)
	livesIn(t, dir, "/srv")
	p := filepath.Join(dir, "p")
	c := nsrun.Config{Why: true, Project: p, After: nsrun.Discard, Rules: []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: filepath.Join(p, "secret")}}}
	const other = "python3 -c 'import os; os.chroot(\"r\"); open(os.environ[\"AT\"])' 2>/dev/null"
	for _, tc := range []struct {
		command string
		told    bool
	}{
		{"cat $AT", true},
		{other, false},
		{other + "; cat $AT", true},
		{other + " & wait; ls none; cat $AT", true},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "AT=" + p + "/secret; export AT; " + tc.command})
		if err != nil || res.ExitCode == 0 {
			t.Errorf("%s: %v, %s", tc.command, err, res)
			continue
		}
		told := len(res.Refusals) == 1 && res.Refusals[0].Target == p+"/secret"
		if told != tc.told || !told && len(res.Refusals) > 0 {
			t.Errorf("%s: %+v: %s", tc.command, res.Refusals, res)
		}
	}
}
