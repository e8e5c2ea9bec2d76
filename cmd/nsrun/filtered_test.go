//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// underFilter is nsrun run in an empty project, below a seccomp filter.
func underFilter(t *testing.T, bin, dir string, filter []byte, args ...string) ran {
	t.Helper()
	file, project := filepath.Join(dir, "filter"), filepath.Join(dir, "project")
	if err := errors.Join(os.WriteFile(file, filter, 0o644), os.MkdirAll(project, 0o755)); err != nil {
		t.Fatal(err)
	}
	outer := []string{"--dev-bind", "/", "/", "--cap-add", "ALL", "--seccomp-file", file, "--", filepath.Join(bin, "nsrun"), "run", "--home", "none"}
	c := command(append(outer, args...)...)
	c.Dir, c.Env = project, append(os.Environ(), "HOME="+dir)
	return runs(t, bin, "nsrun", c)
}

// TestKillRefused: where a filter refuses the calls that send signals, time limits end commands all the same, or none
// is started. (The control: with nothing refused.)
func TestKillRefused(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	for name, calls := range map[string][]uint32{
		"nothing": nil, "kill": {unix.SYS_KILL}, "pidfd_send_signal": {unix.SYS_PIDFD_SEND_SIGNAL},
		"both": {unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_PIDFD_SEND_SIGNAL},
	} {
		run := func(backend, limit string) ran {
			return underFilter(t, bin, dir, refuse(unix.EPERM, calls...), "--direct", "--backend", backend, "--timeout", limit, "--grace", "50ms",
				"--", "sh", "-c", "trap '' TERM; sleep 600 & sleep 600; echo slept")
		}
		if r := run("native", "100ms"); r.status != 124 || strings.Contains(r.out, "slept") {
			t.Errorf("%s refused: %d %s", name, r.status, r.out)
		}
		if features.Get(features.LandlockScopes).Status != features.Yes {
			continue
		}
		want, limit := 124, "100ms"
		if slices.Contains(calls, unix.SYS_KILL) {
			want, limit = 125, "1m" // a busy machine must not take so long to refuse the start
		}
		if r := run("landlock", limit); r.status != want || want == 125 && !strings.Contains(r.out, "to send signals, without which nothing could end the command") {
			t.Errorf("%s refused, without namespaces: %d %s", name, r.status, r.out)
		}
	}
}

// TestCallRefused: where a filter refuses one of the calls that a sandbox may need, the command runs all the same, or
// one line says what to do.
func TestCallRefused(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	for i, nr := range []uint32{
		unix.SYS_CAPSET, unix.SYS_CHDIR, unix.SYS_CHROOT, unix.SYS_FCHDIR, unix.SYS_FSTATFS, unix.SYS_KEYCTL, unix.SYS_LINKAT,
		unix.SYS_MKNODAT, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE, unix.SYS_PIDFD_OPEN,
		unix.SYS_PIVOT_ROOT, unix.SYS_PPOLL, unix.SYS_PRCTL, unix.SYS_PRLIMIT64, unix.SYS_RENAMEAT2, unix.SYS_SECCOMP, unix.SYS_SETGROUPS,
		unix.SYS_SETHOSTNAME, unix.SYS_SETRESUID, unix.SYS_SETSID, unix.SYS_SOCKETPAIR, unix.SYS_STATX, unix.SYS_SYMLINKAT, unix.SYS_UMOUNT2,
		unix.SYS_UNSHARE,
	} {
		errno := []unix.Errno{unix.EPERM, unix.ENOSYS}[i%2]
		if testenv.Root() {
			errno = []unix.Errno{unix.ENOSYS, unix.EPERM}[i%2]
		}
		r := underFilter(t, bin, dir, refuse(errno, nr), "--discard", "--", "echo", "ran")
		ran, said := strings.Contains(r.out, "ran\n"), strings.Count(r.out, "\n") == 1 && strings.Contains(r.out, "try: ")
		if (r.status != 0 || !ran) && (r.status != 125 || !said) {
			t.Errorf("call %d, %v: status %d: %s", nr, errno, r.status, r.out)
		}
	}
}
