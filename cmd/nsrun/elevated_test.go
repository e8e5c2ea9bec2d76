//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestElevated: a copy of nsrun with more rights than its caller does nothing, under whatever
// name and with whatever arguments. The control is the same copy without them.
func TestElevated(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/", "home/p/", "home/p/file: x")
	home := filepath.Join(dir, "home")
	for _, name := range []string{home, home + "/p", home + "/p/file"} {
		if err := os.Chown(name, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "copy")
	attempt := func(argv ...string) (status int, out string) {
		c := exec.Command(file)
		c.Args, c.Dir = argv, home+"/p"
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GORACE=atexit_sleep_ms=0"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if argv[0] != "nsrun" && argv[0] != "bwrap" {
			r, w, err := os.Pipe() // what the launcher would read from
			if err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			defer r.Close()
			c.ExtraFiles = []*os.File{r}
		}
		b, _ := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(argv, "was not executed")
		}
		return c.ProcessState.ExitCode(), string(b)
	}
	if err := os.WriteFile(file, self, 0o755); err != nil {
		t.Fatal(err)
	}
	works := [][]string{
		{"nsrun", "run", "--discard", "--", "id", "-u"},
		{"nsrun", "run", "-q", "--direct", "--", "id", "-u"},
		{"nsrun", "--ro-bind", "/", "/", "id", "-u"},
		{"nsrun", "--ro-bind", "/", "/", "--unshare-all", "--dev", "/dev", "id", "-u"},
		{"bwrap", "--ro-bind", "/", "/", "id", "-u"},
		{"bwrap", "--bind", "/", "/", "--unshare-pid", "--perms", "0700", "--tmpfs", "/mnt", "id", "-u"},
	}
	for _, argv := range works {
		if status, out := attempt(argv...); status != 0 || !strings.Contains(out, "65534") {
			t.Errorf("control: %q: status %d\n%s", argv, status, out)
		}
	}
	refused := slices.Clone(works)
	for _, v := range verbs {
		refused = append(refused, []string{"nsrun", v.Name}, []string{"nsrun", v.Name, "--json"})
	}
	refused = append(refused, []string{"nsrun"}, []string{"nsrun", "-h"}, []string{"nsrun", "--version"}, []string{"bwrap", "--version"}, []string{"bwrap"},
		[]string{reexec.LauncherName}, []string{"nsrun:tmpfs"}, []string{"nsrun:probe"}, []string{"nsrun:probe-proc", home})
	for how, elevate := range testenv.Elevations {
		if err := errors.Join(os.Remove(file), os.WriteFile(file, self, 0o755), elevate(file)); err != nil {
			t.Fatal(how, err)
		}
		for _, argv := range refused {
			status, out := attempt(argv...)
			line := strings.TrimSuffix(out, "\n")
			said := strings.Contains(line, "more rights than its caller") || strings.Contains(line, "setuid use of bubblewrap") || strings.Contains(line, "Unexpected capabilities")
			if status != 125 && status != 1 || !said || strings.Contains(line, "\n") {
				t.Errorf("%s: %q: status %d\n%s", how, argv, status, out)
			}
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 2 {
		t.Error("something was made in the home directory:", left, err) // .local is the control's
	}
}
