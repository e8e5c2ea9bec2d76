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
		"deleted":        {`exec 3>/tmp/x; rm /tmp/x; head -c ${M}M /dev/zero >&3; sleep $S`, "memory"},
		"threads":        {py + ` -c 'import threading, time; [threading.Thread(target=time.sleep, args=($S,), daemon=True).start() for i in range($N)]; time.sleep($S)'`, "process"},
		"daemons":        {py + ` -c 'import os, time; [os.fork() or (os.setsid(), time.sleep($S), os._exit(0)) for i in range($N)]; time.sleep($S)'`, "process"},
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
