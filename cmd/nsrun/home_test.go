//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// mounted mounts source at target until the test ends.
func mounted(t *testing.T, source, target, fstype string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, flags, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// nsrunIn runs nsrun in a directory, and returns what it prints.
func nsrunIn(t *testing.T, dir string, env []string, args ...string) (status int, output string) {
	t.Helper()
	c := exec.Command(filepath.Join(installed(t), "nsrun"), args...)
	c.Dir, c.Env = dir, append(env, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0") // else a second for each process
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestHome: whatever HOME says, what is secret in the home directory is hidden.
func TestHome(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "home/.ssh/id: private key", "home/notes: public", "other/.ssh/id: private key", "p/", "state/",
		fmt.Sprintf("passwd: root:x:%d:0::%s/home:/bin/sh\n", os.Geteuid(), dir), "nobody: ")
	mounted(t, filepath.Join(dir, "passwd"), "/etc/passwd", "", unix.MS_BIND)
	state := "XDG_STATE_HOME=" + filepath.Join(dir, "state")
	show := func(file string, env ...string) (int, string) {
		// --ro: the test's directory lies where the sandbox has its own /tmp.
		return nsrunIn(t, filepath.Join(dir, "p"), append(env, state), "run", "-q", "--ro", dir, "--", "cat", filepath.Join(dir, file))
	}
	for _, env := range [][]string{nil, {"HOME="}, {"HOME=/tmp"}, {"HOME=relative"}, {"HOME=" + filepath.Join(dir, "other")}} {
		if status, out := show("home/.ssh/id", env...); status != 1 || !strings.Contains(out, "Permission denied") {
			t.Errorf("%s: status %d\n%s", env, status, out)
		}
		// Control.
		if status, out := show("home/notes", env...); status != 0 || out != "public" {
			t.Errorf("%s: status %d\n%s", env, status, out)
		}
	}
	// Of two, both.
	if status, out := show("other/.ssh/id", "HOME="+filepath.Join(dir, "other")); status != 1 {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out := show("other/.ssh/id", "HOME=/tmp"); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	// Without any nothing is run.
	mounted(t, filepath.Join(dir, "nobody"), "/etc/passwd", "", unix.MS_BIND)
	if status, out := show("home/notes"); status != 125 || !strings.HasPrefix(out, "nsrun: find home directory: ") {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out := show("home/notes", "HOME=/tmp"); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
}

func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// TestHomeThroughTmp: where the name of the home directory leads through a link that is in /tmp, where commands have a
// directory of their own, commands are told where it is. The control is its own name.
func TestHomeThroughTmp(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "state/", "home/note: mine", "link => home", "two => link")
	for _, home := range []string{"link", "two", "home"} {
		status, out := nsrunIn(t, filepath.Join(dir, "p"), []string{"HOME=" + filepath.Join(dir, home), "XDG_STATE_HOME=" + filepath.Join(dir, "state")},
			"run", "-q", "--direct", "--", "sh", "-c", `cat "$HOME/note" && echo " $HOME" && cd ~ && echo x >x`)
		if status != 0 || out != "mine "+dir+"/home\n" {
			t.Errorf("%s: status %d\n%s", home, status, out)
		}
	}
}
