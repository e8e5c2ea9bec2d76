//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// A lodger is a user with a home directory that is in no private place of a sandbox, and a project in it.
type lodger struct {
	t    *testing.T
	uid  int
	dir  string // of the test, outside
	home string
	bin  string
}

// lodgers runs a test for root and for an ordinary user. The lines make the home directory, see testenv.Tree; it has a
// directory p, which is the project.
func lodgers(t *testing.T, lines []string, test func(l *lodger)) {
	testenv.NeedRoot(t) // who can put the home directory elsewhere
	for name, uid := range map[string]int{"root": 0, "user": 65534} {
		t.Run(name, func(t *testing.T) {
			testenv.Leaks(t, reap)
			l := &lodger{t: t, uid: uid, dir: testenv.Dir(t), home: "/srv"}
			l.bin = filepath.Join(l.dir, "bin")
			if err := errors.Join(os.Mkdir(l.bin, 0o755), copyExecutable(filepath.Join(l.bin, "nsrun"))); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(l.dir, "home")
			testenv.Tree(t, at, append([]string{"p/f: project", "other/f: project"}, lines...)...)
			l.give(at)
			mounted(t, at, l.home, "", unix.MS_BIND)
			test(l)
		})
	}
}

// copyExecutable copies this program to where others may execute it, too.
func copyExecutable(to string) error {
	b, err := os.ReadFile("/proc/self/exe")
	return errors.Join(err, os.WriteFile(to, b, 0o755))
}

// give makes all of a tree the lodger's.
func (l *lodger) give(dir string) {
	l.t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, l.uid, l.uid))
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// command is a program of the lodger's in a directory of its home.
func (l *lodger) command(dir, program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = filepath.Join(l.home, dir)
	c.Env = []string{"PATH=" + l.bin + ":" + os.Getenv("PATH"), "HOME=" + l.home, "LC_ALL=C", "GORACE=atexit_sleep_ms=0"} // else a second for each process
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(l.uid), Gid: uint32(l.uid)}}
	return c
}

// in runs nsrun in a directory of the home, with what it prints.
func (l *lodger) in(dir string, args ...string) (status int, out string) {
	l.t.Helper()
	b, err := l.command(dir, filepath.Join(l.bin, "nsrun"), args...).CombinedOutput()
	if e, exited := errors.AsType[*exec.ExitError](err); exited {
		return e.ExitCode(), string(b)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return 0, string(b)
}

// sh runs a script in a sandbox in the project, with flags before it, and fails if that does.
func (l *lodger) sh(script string, flags ...string) string {
	l.t.Helper()
	status, out := l.in("p", append(append([]string{"run", "-q"}, flags...), "-c", script)...)
	if status != 0 {
		l.t.Errorf("%q with %q: status %d\n%s", script, flags, status, out)
	}
	return out
}

// want compares what something printed.
func (l *lodger) want(got, want string) {
	l.t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		l.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
