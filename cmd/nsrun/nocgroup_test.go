//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestLimitsWithoutCgroups: without cgroups, nsrun itself looks at what a command uses, and ends it, in whatever way it
// uses it. The controls use less than the limit. Root hides this host's cgroups in a mount namespace; other users have
// none here, or theirs enforce the limits.
func TestLimitsWithoutCgroups(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	const py = "/usr/bin/python3"
	if ok, err := have(py); err != nil {
		t.Fatal(err)
	} else if !ok {
		testenv.Skip(t, "python3", "not installed")
	}
	for name, c := range map[string]struct{ script, want string }{
		"one process":    {py + ` -c 'import time; x = bytearray($M << 20); time.sleep($S)'`, "memory"},
		"many processes": {`for i in 1 2 3 4 5 6 7 8; do ` + py + ` -c 'import time; x = bytearray(($M << 20) // 8); time.sleep($S)' & done; wait`, "memory"},
		"tmpfs":          {`head -c ${M}M /dev/zero >/tmp/x; sleep $S`, "memory"},
		"shared memory":  {`head -c ${M}M /dev/zero >/dev/shm/x; sleep $S`, "memory"},
		"memfd":          {py + ` -c 'import os, time; f = os.memfd_create("x"); [os.write(f, bytes(1 << 20)) for i in range($M)]; time.sleep($S)'`, "memory"},
		"empty files":    {py + ` -c 'import os, time; [os.mkdir("/tmp/%d" % i) for i in range($M << 10)]; time.sleep($S)'`, "memory"},
		"deleted":        {`exec 3>/tmp/x; rm /tmp/x; head -c ${M}M /dev/zero >&3; sleep $S`, "memory"},
		"given back":     {py + ` -c 'import mmap, time; m = mmap.mmap(-1, $M << 20); [(m.write(bytes(1 << 20)), m.madvise(mmap.MADV_DONTNEED, i << 20, 1 << 20)) for i in range($M)]; time.sleep($S)'`, "memory"},
		"in a socket": {py + ` -c 'import os, socket, time; a, b = socket.socketpair(); f = os.memfd_create("x"); [os.write(f, bytes(1 << 20)) for i in range($M)]
socket.send_fds(a, [b"x"], [f]); os.close(f); time.sleep($S)'`, "memory"},
		"a thread's own": {py + ` -c 'import ctypes, os, threading, time
def work():
    ctypes.CDLL(None).unshare(0x400)
    f = os.memfd_create("x"); [os.write(f, bytes(1 << 20)) for i in range($M)]; time.sleep($S)
t = threading.Thread(target=work); t.start(); t.join()'`, "memory"},
		"the first thread has ended": {py + ` -c 'import ctypes, os, threading, time
def work():
    time.sleep(0.1); x = bytearray($M << 20); time.sleep($S); os._exit(0)
threading.Thread(target=work).start(); ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)'`, "memory"},
		"threads": {py + ` -c 'import threading, time; [threading.Thread(target=time.sleep, args=($S,), daemon=True).start() for i in range($N)]; time.sleep($S)'`, "process"},
		"daemons": {py + ` -c 'import os, time; [os.fork() or (os.setsid(), time.sleep($S), os._exit(0)) for i in range($N)]; time.sleep($S)'`, "process"},
	} {
		for _, over := range [...]bool{true, false} {
			set := "M=256 N=400 S=60; "
			if !over {
				set = "M=16 N=8 S=0; "
			}
			if !testenv.TurnOf(name + set) {
				continue
			}
			t.Run(name+": "+set, func(t *testing.T) {
				script := set + strings.NewReplacer("$M", "'$M'", "$N", "'$N'", "$S", "'$S'").Replace(c.script)
				if !strings.Contains(c.script, "'") {
					script = set + c.script
				}
				cmd := exec.Command(filepath.Join(bin, "nsrun"), "run", "--discard", "--memory", "96M", "--pids", "100", "--timeout", "50s", "-c", script)
				cmd.Dir, cmd.Env = filepath.Join(dir, "p"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
				if testenv.Root() {
					cmd = withoutCgroups(t, cmd)
				}
				out, _ := cmd.CombinedOutput()
				status, said := cmd.ProcessState.ExitCode(), string(out)
				if testenv.Root() && !strings.Contains(said, "memory limit 96 MiB is enforced by nsrun itself") {
					t.Errorf("no notice says what enforces the limit: %s", said)
				}
				reached := strings.Contains(said, "killed: "+c.want+" limit")
				switch byKernel := c.want == "process" && !strings.Contains(said, "process limit 100 processes is enforced by nsrun itself"); {
				case over && !byKernel && (status != 137 || !reached), !over && (status != 0 || reached), over && status == 0:
					t.Errorf("status %d: %s", status, said)
				}
			})
		}
	}
}

// TestUnmeasured: where nsrun measures the memory of a command, the command has no memory that nobody can measure. The
// controls are a small segment, and the same calls without the limit.
func TestUnmeasured(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "p/")
	const py = "/usr/bin/python3"
	if ok, err := have(py); err != nil {
		t.Fatal(err)
	} else if !ok {
		testenv.Skip(t, "python3", "not installed")
	}
	const script = `import ctypes; c = ctypes.CDLL(None, use_errno=True)
for name, args in (("small", (c.shmget, 0, 4096, 0o1600)), ("large", (c.shmget, 0, 1 << 20, 0o1600)), ("huge", (c.shmget, 0, ctypes.c_size_t(1 << 40), 0o1600)), ("secret", (c.syscall, 447, 0))):
    print(name, args[0](*args[1:]) >= 0 and "yes" or ctypes.get_errno())`
	run := func(words ...string) string {
		cmd := exec.Command(filepath.Join(bin, "nsrun"), append(append([]string{"run", "--discard", "-q"}, words...), "--", py, "-c", script)...)
		cmd.Dir, cmd.Env = filepath.Join(dir, "p"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		if testenv.Root() {
			cmd = withoutCgroups(t, cmd)
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
		return string(out)
	}
	const enomem, enosys = "12", "38"
	control := run()
	if !strings.HasPrefix(control, "small yes\nlarge yes\n") {
		t.Errorf("the control: %s", control)
	}
	if strings.HasSuffix(control, "secret "+enosys+"\n") {
		t.Log("this kernel has no secret memory")
	}
	limited := run("--memory", "96M")
	if !testenv.Root() && strings.Contains(limited, "large yes") && strings.HasPrefix(limited, control) {
		return // a cgroup enforces the limit
	}
	if want := "small yes\nlarge " + enomem + "\nhuge " + enomem + "\nsecret " + enosys + "\n"; limited != want {
		t.Errorf("%s, want %s", limited, want)
	}
}

// withoutCgroups is a command that root runs where no cgroups are mounted.
func withoutCgroups(t *testing.T, c *exec.Cmd) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("unshare"); err != nil {
		testenv.Skip(t, "unshare", err.Error())
	}
	words := append([]string{"-m", "sh", "-c", `umount -R -l /sys/fs/cgroup 2>&-; exec "$@"`, "-"}, c.Args...)
	outer := exec.Command("unshare", words...)
	outer.Dir, outer.Env = c.Dir, c.Env
	return outer
}
