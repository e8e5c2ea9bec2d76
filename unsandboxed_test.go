//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
)

func init() {
	insides["unsandboxed"] = insideUnsandboxed
	insides["filtered"] = insideFiltered
}

// kinds are what a failure can be.
var kinds = map[error]string{nsrun.ErrNotAvailable: "not available", nsrun.ErrConfig: "configuration", nsrun.ErrExecution: "execution", nsrun.ErrTimeout: "time-out"}

// insideUnsandboxed runs commands in each mode, and prints what became of them; the argument is the project.
func insideUnsandboxed(args []string) int {
	project := args[0]
	fmt.Println(nsrun.Check().Status)
	run := func(name string, c nsrun.Config, q nsrun.Request) {
		if c.Project == "" {
			c.Project = project
		}
		c.Backend = nsrun.NativeBackend // Landlock takes no namespaces
		r := nsrun.NewRunner(c)
		res, err := r.Run(context.Background(), q)
		for ; res.TimedOut && res.Stdout.String() == "" && q.Timeout < time.Minute; res, err = r.Run(context.Background(), q) {
			q.Timeout *= 2 // on a busy machine it has not begun
		}
		words := []string{name + ":"}
		for kind, text := range kinds {
			if errors.Is(res.Failure(), kind) {
				words = append(words, text+",")
			}
		}
		if err == nil && res.Failure() == nil {
			words = append(words, fmt.Sprintf("exit %d,", res.ExitCode))
		}
		if res.Denied {
			words = append(words, "denied,")
		}
		words = append(words, res.Network.Mode+",")
		if res.Started && res.Unsandboxed != "" {
			told := len(res.Notices) == 1 && res.Notices[0].Kind == nsrun.NoticeUnsandboxed && strings.HasPrefix(res.String(), "NO SANDBOX: ")
			words = append(words, fmt.Sprintf("unsandboxed (told %t)", told))
		}
		fmt.Println(strings.TrimSuffix(strings.Join(append(words, strings.TrimSpace(res.Stdout.String())), " "), " "))
		if err := r.Close(); err != nil {
			fmt.Println(err)
		}
	}
	preferred := nsrun.Config{Sandbox: nsrun.SandboxPreferred, After: nsrun.Commit}
	with := func(f func(*nsrun.Config)) nsrun.Config { c := preferred; f(&c); return c }
	write := func(name string) nsrun.Request {
		return nsrun.Request{Command: "echo x >" + name + " && pwd -P | grep -c /p$"}
	}
	run("required", nsrun.Config{After: nsrun.Commit}, write("required"))
	run("preferred", preferred, write("preferred"))
	run("disabled", nsrun.Config{Sandbox: nsrun.SandboxDisabled, After: nsrun.Discard}, write("disabled"))
	run("shared session", with(func(c *nsrun.Config) { c.After = nsrun.Keep }), write("kept"))
	run("exit", preferred, nsrun.Request{Command: "exit 3"})
	run("environment", with(func(c *nsrun.Config) { c.Env = []string{"A=1", "B_TOKEN"} }), nsrun.Request{Command: "echo $A $B_TOKEN $C_TOKEN $D", Env: []string{"D=2"}})
	run("clear", with(func(c *nsrun.Config) { c.ClearEnv = true }), nsrun.Request{Command: "echo $HOME $NSRUN_TEST_INSIDE | grep -c home$"})
	run("input", preferred, nsrun.Request{Command: "cat", Stdin: strings.NewReader("in")})
	run("directory", preferred, nsrun.Request{Command: "pwd | grep -c /p/sub$", WorkingDir: "sub"})
	run("background", preferred, nsrun.Request{Command: "sleep 1000 & echo started"})
	run("time", preferred, nsrun.Request{Command: "echo up; sleep 1000; echo on", Timeout: 100 * time.Millisecond})
	run("grace", with(func(c *nsrun.Config) { c.Grace = 50 * time.Millisecond }), nsrun.Request{Command: "trap '' TERM; echo up; while :; do sleep 1; done", Timeout: 300 * time.Millisecond})
	run("no directory", preferred, nsrun.Request{Command: "true", WorkingDir: "none"})
	run("no command", preferred, nsrun.Request{})
	run("no program", preferred, nsrun.Request{Args: []string{"no-such-program"}})
	run("no permission", preferred, nsrun.Request{Args: []string{"./sub"}})
	run("rule", with(func(c *nsrun.Config) { c.Rules = []nsrun.Rule{{Mode: nsrun.ReadOnly, Pattern: "/no/such"}} }), write("rule"))
	run("project", with(func(c *nsrun.Config) { c.Project = "/no/such" }), write("project"))
	run("session", with(func(c *nsrun.Config) { c.Session = "20200101T000000Z-aaaaaaaa" }), write("session"))
	run("root", with(func(c *nsrun.Config) { c.Presets = []nsrun.Preset{nsrun.WorkspaceRootPreset} }), write("root"))
	run("disabled root", nsrun.Config{Sandbox: nsrun.SandboxDisabled, Presets: []nsrun.Preset{nsrun.WorkspaceRootPreset}}, write("root"))
	run("mode", nsrun.Config{Sandbox: 3}, write("mode"))
	run("network", preferred, nsrun.Request{Command: "echo x >asked", Network: true})
	run("disabled network", nsrun.Config{Sandbox: nsrun.SandboxDisabled}, nsrun.Request{Command: "echo x >asked", Network: true})
	return 0
}

// insideFiltered does the same behind a filter as containers have it.
func insideFiltered(args []string) int {
	runtime.LockOSThread()
	const (
		allow = 0x7fff0000
		refer = 0x50000
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 4, K: unix.SYS_UNSHARE},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 4, K: unix.SYS_CLONE3},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: unix.SYS_CLONE},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 2, K: unix.CLONE_NEWUSER},
		{Code: unix.BPF_RET | unix.BPF_K, K: refer | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: refer | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		fmt.Println(errno)
		return 1
	}
	_ = os.Setenv(insideEnv, "unsandboxed")
	fmt.Println(syscall.Exec("/proc/self/exe", append([]string{"self"}, args...), os.Environ()))
	return 1
}

// TestUnsandboxed: preferred runs commands without a sandbox where there can be none, and says so; it does not where
// something else is wrong. The table represents hosts that allow no namespaces, in both ways in which they do.
func TestUnsandboxed(t *testing.T) {
	const none = `required: not available, none,
preferred: exit 0, host, unsandboxed (told true) 1
disabled: exit 0, host, unsandboxed (told true) 1
shared session: exit 0, host, unsandboxed (told true) 1
exit: exit 3, host, unsandboxed (told true)
environment: exit 0, host, unsandboxed (told true) 1 b 2
clear: exit 0, host, unsandboxed (told true) 1
input: exit 0, host, unsandboxed (told true) in
directory: exit 0, host, unsandboxed (told true) 1
background: exit 0, host, unsandboxed (told true) started
time: time-out, host, unsandboxed (told true) up
grace: time-out, host, unsandboxed (told true) up
no directory: configuration, none,
no command: configuration, none,
no program: execution, none,
no permission: execution, none,
rule: configuration, none,
project: configuration, none,
session: configuration, none,
root: not available, none,
disabled root: configuration, none,
mode: configuration, none,
network: denied, host,
disabled network: denied, host,
`
	// Control: where there are sandboxes the same is done in one.
	sandboxed := regexp.MustCompile(`host, unsandboxed \(told true\)`).ReplaceAllString(none, "none,")
	sandboxed = strings.NewReplacer("required: not available, none,", "required: exit 0, none, 1",
		"\ndisabled: exit 0, none, 1", "\ndisabled: exit 0, host, unsandboxed (told true) 1", "root: not available, none,", "root: exit 1, none, 0").Replace(sandboxed)
	landlock := "available\n" // without namespaces
	if features.Get(features.LandlockScopes).Status == features.No {
		landlock = "not supported\n"
	}
	for _, c := range []struct {
		host, inside string
		make         func(*exec.Cmd) *exec.Cmd
		want, files  string
	}{
		{"no user namespaces", "unsandboxed", testenv.WithoutNamespaces, landlock + none, "disabled kept preferred sub"},
		{"a filter refuses them", "filtered", nil, landlock + none, "disabled kept preferred sub"},
		{"sandboxes", "unsandboxed", nil, "available\n" + sandboxed, "disabled preferred required root sub"},
		{"they are used up", "unsandboxed", testenv.WithoutMoreNamespaces, "", ""},
	} {
		t.Run(c.host, func(t *testing.T) {
			if c.host == "sandboxes" {
				need(t, features.Overlay)
			}
			testenv.Leaks(t)
			dir := place(t, "sub/")
			t.Setenv("B_TOKEN", "b")
			t.Setenv("C_TOKEN", "c")
			cmd := exec.Command(self(t), filepath.Join(dir, "p"))
			cmd.Env = append(os.Environ(), insideEnv+"="+c.inside)
			if c.make != nil {
				c.make(cmd)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || c.want != "" && string(out) != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, out, c.want)
			}
			if c.want == "" { // the process that used them up could want just that
				for line := range strings.Lines(string(out)) {
					if strings.Contains(line, "unsandboxed") && !strings.HasPrefix(line, "disabled: ") || !strings.Contains(string(out), "preferred: not available, none,") {
						t.Errorf("%s in\n%s", line, out)
					}
				}
				return
			}
			entries, err := os.ReadDir(filepath.Join(dir, "p"))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if got := strings.Join(names, " "); got != c.files {
				t.Errorf("the project has %s, want %s", got, c.files)
			}
		})
	}
}
