//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// filterScene is a project, and a function that writes a filter and returns what runs nsrun in the project under it.
func filterScene(t *testing.T) func(filter []byte) func(args ...string) ran {
	bin, dir := installed(t), testenv.Dir(t)
	file, project := filepath.Join(dir, "filter"), filepath.Join(dir, "project")
	testenv.Tree(t, dir, "project/", "project/a")
	return func(filter []byte) func(args ...string) ran {
		if err := os.WriteFile(file, filter, 0o644); err != nil {
			t.Fatal(err)
		}
		return under(t, bin, file, project, dir)
	}
}

// TestEndedAtCalls: a filter that ends processes at the calls of @mount, as systemd's SystemCallFilter=~@mount does, is
// like one that refuses them: commands run without namespaces. Where one ends processes at a call that every sandbox
// makes, one line says so, and doctor agrees.
func TestEndedAtCalls(t *testing.T) {
	testenv.Leaks(t, reap)
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
	under := filterScene(t)
	mount := []uint32{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	}
	nsrun := under(answer(unix.SECCOMP_RET_KILL_PROCESS, mount...))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"this host allows no namespaces", []string{"run", "--keep", "--", "sh", "-c", "echo b >b"}},
		{"committed", []string{"commit"}},
		{"", []string{"run", "--direct", "--", "cat", "b"}},
		{"Commands run without namespaces", []string{"doctor"}},
	} {
		if got := nsrun(c.args...); got.status != 0 || !strings.Contains(got.out, c.says) {
			t.Errorf("%s: status %d\n%s", c.args, got.status, got.out)
		}
	}
	if got := nsrun("run", "--backend", "native", "--direct", "--", "true"); got.status != 125 ||
		!strings.Contains(got.out, "no mount namespaces: a seccomp filter ends processes") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("native: status %d\n%s", got.status, got.out)
	}
	nsrun = under(answer(unix.SECCOMP_RET_KILL_PROCESS, unix.SYS_CAPSET))
	const says = "a seccomp filter ends processes that call capset(2), instead of refusing it"
	if got := nsrun("run", "--direct", "--", "true"); got.status != 125 || !strings.Contains(got.out, says+" (") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("capset: status %d\n%s", got.status, got.out)
	}
	if got := nsrun("doctor"); got.status != 1 || !strings.Contains(got.out, says+"\n") {
		t.Errorf("capset: doctor: status %d\n%s", got.status, got.out)
	}
}

// TestRefusedFileCalls: where a filter refuses a call without which there is no session, one line names the call and
// what to do, and doctor agrees.
func TestRefusedFileCalls(t *testing.T) {
	testenv.Leaks(t, reap)
	for i, c := range []struct {
		name string
		nr   uint32
		some bool // only some sessions begin with it, such as those that show a cache in an overlay
	}{
		{"utimensat", unix.SYS_UTIMENSAT, false}, {"fchmod", unix.SYS_FCHMOD, false}, {"fchmodat", unix.SYS_FCHMODAT, true},
		{"getdents64", unix.SYS_GETDENTS64, false}, {"mkdirat", unix.SYS_MKDIRAT, false},
	} {
		for j, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
			if !testenv.Turn(i + j) {
				continue
			}
			nsrun := filterScene(t)(refuse(errno, c.nr))
			says := "a seccomp filter refuses " + c.name + "(2)"
			// The second one finds what the first one left, and could not leave as it should.
			nsrun("run", "--keep", "--", "sh", "-c", "echo b >b")
			got := nsrun("run", "--keep", "--", "sh", "-c", "echo b >b")
			if c.some && got.status == 0 {
				if !strings.Contains(got.out, "nsrun: kept 1 change: ") {
					t.Errorf("%s, %v: %s", c.name, errno, got.out)
				}
			} else if got.status != 125 || !strings.Contains(got.out, says+" (it needs a seccomp filter that allows it; try: ") || strings.Count(got.out, "\n") != 1 {
				t.Errorf("%s, %v: status %d\n%s", c.name, errno, got.status, got.out)
			}
			if got := nsrun("doctor"); got.status == 0 || !strings.Contains(got.out, says+"\n") {
				t.Errorf("%s, %v: doctor: status %d\n%s", c.name, errno, got.status, got.out)
			}
		}
	}
	nsrun := filterScene(t)(refuse(unix.EPERM, unix.SYS_REBOOT))
	if got := nsrun("run", "--discard", "--", "true"); got.status != 0 { // the control
		t.Errorf("status %d\n%s", got.status, got.out)
	}
}

// TestRefusedCommonCalls: where a filter refuses a call without which nothing works, one line names the call and what
// to do, and doctor agrees. Where only the home layer or the registry suffers, their notices do so.
func TestRefusedCommonCalls(t *testing.T) {
	testenv.Leaks(t, reap)
	under := filterScene(t)
	for i, c := range []struct {
		name   string
		nr     uint32
		notice string
	}{
		{"pipe2", unix.SYS_PIPE2, ""}, {"dup3", unix.SYS_DUP3, ""}, {"socketpair", unix.SYS_SOCKETPAIR, ""}, {"sendmsg", unix.SYS_SENDMSG, ""},
		{"recvmsg", unix.SYS_RECVMSG, ""}, {"ppoll", unix.SYS_PPOLL, ""}, {"prctl", unix.SYS_PRCTL, ""},
		{"umask", unix.SYS_UMASK, ""}, {"setsid", unix.SYS_SETSID, ""}, {"chdir", unix.SYS_CHDIR, ""},
		{"linkat", unix.SYS_LINKAT, "no home layer: "}, {"readlinkat", unix.SYS_READLINKAT, "no home layer: "},
		{"flock", unix.SYS_FLOCK, "registry: "}, {"fdatasync", unix.SYS_FDATASYNC, "registry: "},
	} {
		for j, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES} {
			if !testenv.Turn(i + j) {
				continue
			}
			nsrun := under(refuse(errno, c.nr))
			says := "a seccomp filter refuses " + c.name + "(2)"
			got := nsrun("run", "--keep", "--", "sh", "-c", "echo b >b")
			named := strings.Contains(got.out, says+" (it needs a seccomp filter that allows it; try: ")
			switch kept := got.status == 0 && strings.Contains(got.out, "nsrun: kept 1 change: "); {
			case kept && (named || c.notice == "" || !strings.Contains(got.out, c.notice)): // some sandboxes do without
			case c.notice != "" || got.status != 125 || !named || strings.Count(got.out, "\n") != 1:
				t.Errorf("%s, %v: status %d\n%s", c.name, errno, got.status, got.out)
			}
			if got := nsrun("doctor"); got.status == 0 || !strings.Contains(got.out, says+"\n") {
				t.Errorf("%s, %v: doctor: status %d\n%s", c.name, errno, got.status, got.out)
			}
		}
	}
}

// TestRefusedMountCalls: a filter that refuses one of the calls that put a command into its file system is like one
// that refuses mount(2): commands run without namespaces.
func TestRefusedMountCalls(t *testing.T) {
	testenv.Leaks(t, reap)
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
	under := filterScene(t)
	for i, nr := range []uint32{
		unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FCHDIR, unix.SYS_MKNODAT, unix.SYS_SYMLINKAT,
	} {
		nsrun := under(refuse([]unix.Errno{unix.EPERM, unix.ENOSYS}[i%2], nr))
		if got := nsrun("run", "--discard", "--", "cat", "a"); got.status != 0 || !strings.Contains(got.out, "this host allows no namespaces") {
			t.Errorf("call %d: status %d\n%s", nr, got.status, got.out)
		}
		if got := nsrun("doctor"); got.status != 0 || !strings.Contains(got.out, "Commands run without namespaces") {
			t.Errorf("call %d: doctor: status %d\n%s", nr, got.status, got.out)
		}
	}
}

// TestRefusedSocket: where no command can make a socket, it does not matter that a sandbox has no loopback device.
// Where a filter refuses the pair of sockets that nsrun itself needs, as that of a unit without AF_UNIX does, the line
// says so.
func TestRefusedSocket(t *testing.T) {
	testenv.Leaks(t, reap)
	under := filterScene(t)
	for _, errno := range []unix.Errno{unix.EAFNOSUPPORT, unix.EPERM} {
		nsrun := under(refuse(errno, unix.SYS_SOCKET))
		if got := nsrun("run", "--backend", "native", "--discard", "--", "cat", "a"); got.status != 0 {
			t.Errorf("socket, %v: status %d\n%s", errno, got.status, got.out)
		}
		nsrun = under(refuse(errno, unix.SYS_SOCKETPAIR))
		got := nsrun("run", "--discard", "--", "cat", "a")
		if got.status != 125 || !strings.Contains(got.out, "a seccomp filter refuses socketpair(2) (") || strings.Count(got.out, "\n") != 1 {
			t.Errorf("socketpair, %v: status %d\n%s", errno, got.status, got.out)
		}
	}
}

// TestEndedAtOneCall: a filter that ends processes at one call, as that of a unit of systemd with
// SystemCallFilter=@system-service does at kcmp(2) and seccomp(2), is like one that refuses it: nothing ends without a
// word, and doctor agrees.
func TestEndedAtOneCall(t *testing.T) {
	testenv.Leaks(t, reap)
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(t, string(f.Name), f.Why)
	}
	under := filterScene(t)
	for i, c := range []struct {
		name, says string
		nr         uint32
	}{
		{"kcmp", "", unix.SYS_KCMP}, {"seccomp", "", unix.SYS_SECCOMP}, {"unshare", "this host allows no namespaces", unix.SYS_UNSHARE},
		{"pidfd_getfd", "", unix.SYS_PIDFD_GETFD}, {"landlock_create_ruleset", "", unix.SYS_LANDLOCK_CREATE_RULESET},
	} {
		if !testenv.Turn(i) {
			continue
		}
		nsrun := under(answer(unix.SECCOMP_RET_KILL_PROCESS, c.nr))
		for _, args := range [][]string{
			{"run", "--direct", "--", "cat", "a"}, {"run", "--keep", "--", "sh", "-c", "echo b >b"}, {"commit"}, {"undo"}, {"doctor"},
		} {
			got := nsrun(args...)
			if got.status != 0 || args[0] == "run" && !strings.Contains(got.out, c.says) {
				t.Errorf("%s: %s: status %d\n%s", c.name, args, got.status, got.out)
			}
		}
	}
}
