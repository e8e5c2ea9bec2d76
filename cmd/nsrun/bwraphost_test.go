//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// bwrapScene returns a function that runs a command line of bubblewrap's under a filter, without capabilities as an
// ordinary user.
func bwrapScene(t *testing.T) func(filter []byte) ran {
	bin, dir := installed(t), testenv.Dir(t)
	file := filepath.Join(dir, "filter")
	return func(filter []byte) ran {
		if err := os.WriteFile(file, filter, 0o644); err != nil {
			t.Fatal(err)
		}
		outer := []string{"--unshare-user", "--dev-bind", "/", "/", "--seccomp-file", file, "--", filepath.Join(bin, "nsrun")}
		if testenv.Root() {
			outer = outer[1:]
		}
		c := command(append(outer, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--", "true")...)
		c.Dir = dir
		return runs(t, bin, "nsrun", c)
	}
}

// TestBubblewrapRefused: where a filter refuses a call that bubblewrap's command line needs, one line has bubblewrap's
// words, then the cause and what to do. The control is a filter that refuses another call.
func TestBubblewrapRefused(t *testing.T) {
	testenv.Leaks(t, reap)
	under := bwrapScene(t)
	for i, c := range []struct {
		nr   uint32
		says string // after bubblewrap's words
	}{
		{unix.SYS_CHDIR, "a seccomp filter refuses chdir(2) (it needs "}, {unix.SYS_UMASK, "a seccomp filter refuses umask(2) (it needs "},
		{unix.SYS_MKDIRAT, "a seccomp filter refuses mkdirat(2) (it needs "}, {unix.SYS_FSTATFS, "a seccomp filter refuses fstatfs(2) (it needs "},
		{unix.SYS_PIPE2, "a seccomp filter refuses pipe2(2) (it needs "}, {unix.SYS_SYMLINKAT, "no mount namespaces: "},
		{unix.SYS_IOCTL, "nsrun itself runs under a seccomp filter"},
	} {
		for j, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES} {
			if !testenv.Turn(i + j) {
				continue
			}
			got := under(refuse(errno, c.nr))
			if got.status != 1 || !strings.Contains(got.out, c.says) || !strings.Contains(got.out, "try: ") || strings.Count(got.out, "\n") != 1 {
				t.Errorf("%d, %v: status %d\n%s", c.nr, errno, got.status, got.out)
			}
		}
	}
	if got := under(refuse(unix.EPERM, unix.SYS_REBOOT)); got.status != 0 { // the control
		t.Errorf("status %d\n%s", got.status, got.out)
	}
}

// TestBubblewrapNoNamespaces: a sandbox that was begun before main, and could not make its namespaces, is not taken for
// one that somebody killed: each time, the error says what was refused, however the two processes meet.
func TestBubblewrapNoNamespaces(t *testing.T) {
	testenv.Leaks(t, reap)
	under := bwrapScene(t)
	for range testenv.Rounds(20, 200) {
		got := under(refuse(unix.EPERM, unix.SYS_UNSHARE))
		if got.status != 1 || !strings.Contains(got.out, "No permissions to create a new namespace") || !strings.Contains(got.out, "try: ") || strings.Count(got.out, "\n") != 1 {
			t.Fatalf("status %d\n%s", got.status, got.out)
		}
	}
}
