//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestFewNamespaces: limits that allow one namespace of a kind allow one sandbox after the other. The control is what
// somebody else has used up: doctor and a start say the same, and no command runs with weaker walls.
func TestFewNamespaces(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		testenv.Skip(t, "unshare", err.Error())
	}
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "home/", "a/", "b/", "c/", "d/", "e/", "f/", "g/", "h/")
	below := func(script, args string) ran {
		cmd := command("-U", "--map-root-user", "/bin/sh", "-c", script+filepath.Join(bin, "nsrun")+" "+args)
		cmd.Dir, cmd.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+dir)
		return runs(t, bin, unshare, cmd)
	}
	many := ""
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		many += "--ro " + filepath.Join(dir, name) + " "
	}
	for _, kind := range []string{"user", "mnt", "pid", "net"} {
		for _, args := range []string{"--direct", "--keep " + many} {
			got := below("echo 1 >/proc/sys/user/max_"+kind+"_namespaces && exec ", "run "+args+" --backend auto -- sh -c 'echo x >>x'")
			if got.status != 0 || strings.Contains(got.out, "Landlock") {
				t.Errorf("one %s namespace, %s: status %d\n%s", kind, args, got.status, got.out)
			}
		}
		if got := below("echo 1 >/proc/sys/user/max_"+kind+"_namespaces && exec ", "doctor"); got.status != 0 || strings.Contains(got.out, "without namespaces") {
			t.Errorf("one %s namespace: doctor: status %d\n%s", kind, got.status, got.out)
		}
	}
	const usedUp = "echo 1 >/proc/sys/user/max_mnt_namespaces && exec unshare -m "
	const remedy = "try: sysctl user.max_mnt_namespaces=10000"
	if got := below(usedUp, "run --direct -- true"); got.status != 125 || !strings.Contains(got.out, remedy) || strings.Count(got.out, "\n") != 1 {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
	if got := below(usedUp, "doctor"); got.status != 1 || !strings.Contains(got.out, remedy) || strings.Contains(got.out, "Commands run without namespaces") {
		t.Errorf("the control: doctor: status %d\n%s", got.status, got.out)
	}
}

// TestFewDescriptors: where doctor says that there are enough descriptors, commands start, and it does not ask for many
// more than they take.
func TestFewDescriptors(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "home/")
	home := filepath.Join(dir, "home")
	limited := func(files int, args string) ran {
		cmd := command("-c", fmt.Sprintf("ulimit -n %d && exec %s %s", files, filepath.Join(bin, "nsrun"), args))
		cmd.Dir, cmd.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home+"/state")
		return runs(t, bin, "/bin/sh", cmd)
	}
	first := map[string]int{}
	for files := 34; files <= 52; files++ {
		for verb, args := range map[string]string{"run": "run --discard --backend native -- true", "doctor": "doctor"} {
			got := limited(files, args)
			if got.status != 0 && !strings.Contains(got.out, "ulimit -n 1024") {
				t.Errorf("%d descriptors: %s: status %d\n%s", files, verb, got.status, got.out)
			}
			if got.status == 0 && first[verb] == 0 {
				first[verb] = files
			} else if got.status != 0 && verb == "run" && first["doctor"] != 0 {
				t.Errorf("%d descriptors: doctor promises a start\n%s", files, got.out)
			}
		}
	}
	if from, to := first["run"], first["doctor"]; from <= 34 || to < from || to > from+10 {
		t.Errorf("%d descriptors are enough, and doctor asks for %d", from, to)
	}
}

// TestPageZero: where something is mapped at address 0 (personality(2), as by setarch -Z), doctor finds what is there.
func TestPageZero(t *testing.T) {
	testenv.NeedRoot(t) // whom the kernel lets map it
	const mmapPageZero = 0x100000
	bin := installed(t)
	cmd := exec.Command(filepath.Join(bin, "nsrun"), "doctor")
	cmd.Env = append(os.Environ(), "HOME="+testenv.Dir(t))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, _, e := unix.Syscall(unix.SYS_PERSONALITY, mmapPageZero, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	out, err := cmd.CombinedOutput()
	if _, _, e := unix.Syscall(unix.SYS_PERSONALITY, old, 0, 0); e != 0 {
		t.Fatal(e)
	}
	if text := "\n" + string(out); err != nil || strings.Contains(text, "\nno       seccomp filters") || strings.Contains(text, "\nno       killable calls") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFewFiles: where a limit on descriptors is too low for a command, doctor says so. The control is a higher one.
func TestFewFiles(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "project/", "home/")
	for limit, fails := range map[string]bool{"16": true, "32": true, "100": false} {
		for _, args := range []string{"run --discard -- true", "doctor"} {
			cmd := command("-c", "ulimit -n "+limit+" && exec "+filepath.Join(bin, "nsrun")+" "+args)
			cmd.Dir, cmd.Env = filepath.Join(dir, "project"), append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_STATE_HOME="+dir)
			got := runs(t, bin, "/bin/sh", cmd)
			if said := strings.Contains(got.out, "(the limit is "+limit+"; raise it where it was lowered: ulimit -n 1024)"); said != fails || (got.status != 0) != fails {
				t.Errorf("ulimit -n %s: %s: status %d\n%s", limit, args, got.status, got.out)
			}
		}
	}
}
