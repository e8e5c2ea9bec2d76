//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

// refusable are system calls that filters of containers refuse, or that some kernels, and other systems that run Linux
// programs, lack. Each has the names of the verbs below that fail without it, and the feature that says so.
var refusable = []struct {
	name  string
	nr    uint32
	fails string // verbs, for an ordinary user
	says  features.Name
}{
	{"clone3", unix.SYS_CLONE3, "", ""},
	{"openat2", unix.SYS_OPENAT2, "", ""},
	{"statx", unix.SYS_STATX, "", ""},
	{"close_range", unix.SYS_CLOSE_RANGE, "", ""},
	{"renameat2", unix.SYS_RENAMEAT2, "", ""},
	{"faccessat2", unix.SYS_FACCESSAT2, "", ""},
	{"memfd_create", unix.SYS_MEMFD_CREATE, "", ""},
	{"fchmodat2", unix.SYS_FCHMODAT2, "", ""},
	{"copy_file_range", unix.SYS_COPY_FILE_RANGE, "", ""},
	{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, "", ""},
	{"open_tree", unix.SYS_OPEN_TREE, "", ""},
	{"move_mount", unix.SYS_MOVE_MOUNT, "", ""},
	{"fsopen", unix.SYS_FSOPEN, "", ""},
	{"fsconfig", unix.SYS_FSCONFIG, "", ""},
	{"fsmount", unix.SYS_FSMOUNT, "", ""},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR, "", ""},
	{"kcmp", unix.SYS_KCMP, "", ""},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, "", ""},
	{"prlimit64", unix.SYS_PRLIMIT64, "", ""},
	{"getrlimit", unix.SYS_GETRLIMIT, "", ""},
	{"getrandom", unix.SYS_GETRANDOM, "", ""},
	{"fsync", unix.SYS_FSYNC, "", ""},
	{"syncfs", unix.SYS_SYNCFS, "", ""},
	{"seccomp", unix.SYS_SECCOMP, "rules why", features.SeccompNotification},
	{"pidfd_open", unix.SYS_PIDFD_OPEN, "rules", features.PidfdOpen},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD, "rules", features.PidfdGetfd},
}

// TestRefusedListed: docs/hosts.md says of each what is different without it.
func TestRefusedListed(t *testing.T) {
	testenv.NeedCheckout(t)
	page, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range refusable {
		if !strings.Contains(string(page), "`"+call.name+"`") {
			t.Errorf("%s is not there", call.name)
		}
	}
}

// under returns a function that runs nsrun in the project, under the filter in a file.
func under(t *testing.T, bin, file, project, state string) func(args ...string) ran {
	return func(args ...string) ran {
		outer := append([]string{"--unshare-user", "--cap-add", "ALL", "--dev-bind", "/", "/", "--seccomp-file", file, "--", filepath.Join(bin, "nsrun")}, args...)
		if testenv.Root() {
			outer = outer[1:]
		}
		c := command(outer...)
		c.Dir, c.Env = project, append(os.Environ(), "XDG_STATE_HOME="+state)
		return runs(t, bin, "nsrun", c)
	}
}

// TestRefusedEach: if one system call is refused, with each of three errors, each verb works as usual, or fails with
// the line of the table of features. It never prints an errno alone.
func TestRefusedEach(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	file, project := filepath.Join(dir, "filter"), filepath.Join(dir, "project")
	testenv.Tree(t, dir, "project/", "project/a")
	verbs := []struct {
		name string
		args []string
	}{
		{"run", []string{"run", "--discard", "--", "sh", "-c", "echo b >b && cat a"}},
		{"keep", []string{"run", "--keep", "--", "sh", "-c", "echo b >b; echo changed >a; mkdir d; ln -s ../a d/l; echo x >d/x"}},
		{"commit", []string{"commit"}},
		{"committed", []string{"run", "--direct", "--", "sh", "-c", "grep changed a && cat b d/x d/l"}},
		{"undo", []string{"undo"}},
		{"undone", []string{"run", "--direct", "--", "sh", "-c", "! grep changed a && [ ! -e b ] && [ ! -e d ]"}},
		{"direct", []string{"run", "--direct", "--", "sh", "-c", "echo z >z && rm z"}},
		{"doctor", []string{"doctor"}},
		{"rules", []string{"run", "--discard", "--allow-net", "tcp:127.0.0.1:1", "--", "bash", "-c", "! { : >/dev/tcp/127.0.0.1/1; } 2>/dev/null && ! { : >/dev/tcp/127.0.0.1/2; } 2>&1 | grep -v refused"}},
		{"why", []string{"run", "--discard", "--why", "--", "cat", "a"}},
		{"watch", []string{"run", "--discard", "--watch", "--", "sh", "-c", "echo b >b"}},
	}
	t.Run("calls", func(t *testing.T) { // which are done when it returns
		for i, call := range refusable {
			for j, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES} {
				if !testenv.Turn(i+j) || !testenv.Part(i/2+j, 2) || errno == unix.EACCES && !testenv.Long() || call.nr == unix.SYS_CLONE3 && errno != unix.ENOSYS && withCgo() {
					continue
				}
				t.Run(fmt.Sprintf("%s,%d", call.name, errno), func(t *testing.T) {
					t.Parallel()
					dir := testenv.Dir(t)
					testenv.Tree(t, dir, "project/", "project/a")
					file := filepath.Join(dir, "filter")
					if err := os.WriteFile(file, refuse(errno, call.nr), 0o644); err != nil {
						t.Fatal(err)
					}
					run := under(t, bin, file, filepath.Join(dir, "project"), dir)
					for _, verb := range verbs {
						got := run(verb.args...)
						fails := strings.Contains(call.fails, verb.name) && !(testenv.Root() && verb.name == "rules") // which the kernel enforces for root
						line := "no " + string(call.says) + ": " + errno.Error() + " (it needs "
						switch {
						case !fails && got.status != 0,
							fails && (got.status != 125 || !strings.Contains(got.out, line) || strings.Count(got.out, "\n") != 1):
							t.Errorf("%s is refused with %v: %s: status %d\n%s", call.name, errno, verb.name, got.status, got.out)
						}
					}
				})
			}
		}
	})
	run := under(t, bin, file, project, dir)
	// Control: the filter does something, and what nothing works without is named.
	if err := os.WriteFile(file, refuse(unix.EPERM, unix.SYS_UNSHARE), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run("run", "--backend", "native", "--", "true"); got.status != 125 || !strings.Contains(got.out, "try: ") {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
	// What cannot be told beforehand.
	if err := os.WriteFile(file, refuse(unix.EPERM, unix.SYS_LANDLOCK_RESTRICT_SELF), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run("run", "--backend", "landlock", "--discard", "--", "true")
	named := strings.Contains(got.out, "nsrun itself runs under a seccomp filter") || strings.Contains(got.out, "no landlock scopes: ")
	if got.status != 125 || !named || strings.Count(got.out, "\n") != 1 {
		t.Errorf("landlock_restrict_self: status %d\n%s", got.status, got.out)
	}
}
