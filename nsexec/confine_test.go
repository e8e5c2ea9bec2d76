//go:build linux

package nsexec_test

import (
	"errors"
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
	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// entries is what is in a directory.
func entries(dir string) (list []confine.Entry, err error) {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		if t := e.Type(); t != os.ModeSymlink && t != os.ModeSocket {
			list = append(list, confine.Entry{Name: e.Name(), File: !e.IsDir()})
		}
	}
	return list, err
}

// confined is a command without namespaces, that reads all but the directory of the test, and writes to its directory
// ws.
func confined(t testing.TB, dir string, name string, args ...string) *nsexec.Cmd {
	t.Helper()
	if !features.Has(features.LandlockScopes) {
		testenv.Skip(t, string(features.LandlockScopes), features.Get(features.LandlockScopes).Why)
	}
	c, err := confinedTo(dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// confinedTo is confined outside of tests.
func confinedTo(dir string, name string, args ...string) (*nsexec.Cmd, error) {
	var m confine.Marks
	m.Cover("/", confine.Read)
	m.Cover(dir, confine.None)
	m.Grant(filepath.Join(dir, "ws"), confine.Write, mounts.FileID{})
	m.Cover("/dev", confine.None)
	m.Grant("/dev/null", confine.Device, mounts.FileID{})
	tree, err := m.Compile(entries)
	if err != nil {
		return nil, err
	}
	c := nsexec.Command(name, args...)
	c.Share = nsexec.All
	c.Dir = filepath.Join(dir, "ws")
	c.Seccomp = []nsexec.Filter{nsexec.DefaultFilter()}
	sandbox.Of(c).Confinement = &sandbox.Confinement{Files: tree.Root}
	return c, nil
}

// TestConfinedFiles: without namespaces a command reads and writes what the rules say, and no more.
func TestConfinedFiles(t *testing.T) {
	leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "secret: s", "ws/d/", "ws/f: old", "else/")
	for _, test := range []struct {
		name, script string
		allowed      bool
	}{
		{"read the system", "cat /etc/passwd >/dev/null", true},
		{"write", "echo new >f && test $(cat f) = new && mkdir n && mv n m && rmdir m && ln -s f l && ln f h && rm h l", true},
		{"rename into another directory", "echo x >x && mv x d/x && mv d/x x", true},
		{"execute", `printf '#!/bin/sh\nexit 0\n' >x.sh && chmod +x x.sh && ./x.sh`, true},
		{"read what is hidden", "cat ../secret", false},
		{"list what is hidden", "ls ..", false},
		{"write outside", "echo x >../else/f", false},
		{"make a directory outside", "mkdir ../else/d", false},
		{"truncate outside", ": >../secret", false},
		{"remove outside", "rm -f ../secret; test ! -e ../secret", false},
		{"move outside", "mv f ../else/f", false},
		{"move in", "mv ../secret in1", false},
		{"link in", "ln ../secret in2", false},
		{"by a link", "ln -sf ../secret l2 && cat l2", false},
		{"by its process", "cat /proc/self/cwd/../secret", false},
		{"a device", "head -c 1 /dev/zero", false},
	} {
		run := func(c interface{ Run() error }) bool { return c.Run() == nil }
		if got := run(confined(t, dir, "sh", "-c", test.script)); got != test.allowed {
			t.Errorf("%s: allowed %v, want %v", test.name, got, test.allowed)
		}
		if test.allowed {
			continue
		}
		control := exec.Command("sh", "-c", test.script)
		control.Dir = filepath.Join(dir, "ws")
		if !run(control) {
			t.Errorf("%s: the control fails", test.name)
		}
		testenv.Tree(t, dir, "secret: s")
	}
}

// daemons leaves a process without a parent behind, in a session of its own, and prints its number.
const daemons = `(setsid sh -c 'echo $$ >pid.tmp; mv pid.tmp pid; trap "" TERM HUP INT; while :; do sleep 1000; done' </dev/null >/dev/null 2>&1 &) ; while ! test -e pid; do sleep 0.01; done`

// left is the number of the process that daemons left.
func left(t testing.TB, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "ws/pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestConfinedEnd: processes that a command leaves running end with it, and with the process that ends it.
func TestConfinedEnd(t *testing.T) {
	t.Run("command", func(t *testing.T) {
		leaks(t)
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/")
		if err := confined(t, dir, "sh", "-c", daemons).Run(); err != nil {
			t.Fatal(err)
		}
		if pid := left(t, dir); testenv.Alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	})
	t.Run("killed", func(t *testing.T) {
		leaks(t)
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/")
		c := confined(t, dir, "sh", "-c", daemons+"; exec sleep 1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the daemon", func() bool { return exists(dir, "ws/pid") })
		if err := c.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("Wait: %v", err)
		}
		if pid := left(t, dir); testenv.Alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	})
	t.Run("control", func(t *testing.T) {
		dir := testenv.Dir(t)
		testenv.Tree(t, dir, "ws/")
		c := exec.Command("sh", "-c", daemons)
		c.Dir = filepath.Join(dir, "ws")
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		pid := left(t, dir)
		if !testenv.Alive(pid) {
			t.Error("the control: without a sandbox the process ended, too")
		}
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		testenv.Eventually(t, "its end", func() bool { return !testenv.Alive(pid) })
	})
}

// TestConfinedSame: a directory that is another one than it was looked at is not written to.
func TestConfinedSame(t *testing.T) {
	leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "ws/")
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "ws"), &st); err != nil {
		t.Fatal(err)
	}
	same := mounts.FileID{Ino: st.Ino, Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
	for _, swap := range []bool{false, true} {
		c := confined(t, dir, "true")
		at := &sandbox.Of(c).Confinement.Files
		for len(at.Nodes) > 0 && at.Name != "ws" {
			i := slices.IndexFunc(at.Nodes, func(n confine.Node) bool { return n.Needed() && n.Name != "dev" })
			at = &at.Nodes[i]
		}
		at.Same = same
		if swap {
			if err := os.Rename(filepath.Join(dir, "ws"), filepath.Join(dir, "old")); err != nil {
				t.Fatal(err)
			}
			testenv.Tree(t, dir, "ws/")
		}
		switch err := c.Run(); {
		case swap:
			wantError(t, err, "landlock", filepath.Join(dir, "ws"), syscall.ESTALE)
		case err != nil:
			t.Error(err)
		}
	}
}
