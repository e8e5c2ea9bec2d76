//go:build linux

package nsrun

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsexec"
)

// checkSandbox finds settings that need a sandbox.
func (c *Config) checkSandbox() string {
	switch {
	case c.Sandbox > SandboxDisabled:
		return "unknown sandbox mode"
	case c.Sandbox == SandboxDisabled && c.needsSandbox():
		return "to continue a session, or to have a workspace as the root, needs a sandbox"
	}
	return ""
}

// needsSandbox reports whether the same command would do something else without a sandbox.
func (c *Config) needsSandbox() bool { return c.Session+c.On != "" || c.has(WorkspaceRootPreset) }

// unavailable says why commands may run without a sandbox after one could not be started. Empty: they may not.
func (r *Runner) unavailable(err error) string {
	c := &r.config
	if c.Sandbox != SandboxPreferred || c.needsSandbox() || kindOf(err) != ErrNotAvailable {
		return ""
	}
	if usedUp(err) {
		return ""
	}
	if a := nativeAvailability(features.Get); a.Status == NotSupported {
		return a.Reason
	}
	return ""
}

// disabledReason is Result.Unsandboxed with SandboxDisabled.
const disabledReason = "it is disabled"

// startUnsandboxed starts the command of an Execution without a sandbox.
func (x *Execution) startUnsandboxed(why string) error {
	c, q := &x.runner.config, &x.request
	x.result.Unsandboxed = why
	x.notices = []Notice{{Kind: NoticeUnsandboxed, Text: "NO SANDBOX: " + why + ". The command can do everything that you can, and changes files at once"}}
	f, err := c.folders(c.suspect(q.Paths))
	if err != nil {
		return err
	}
	first := f.Project
	if first == "" && len(c.Shared) > 0 {
		first = c.Shared[0].Path
	}
	x.dir = plan.WorkingDir(q.WorkingDir, first, host.Home(), false)
	if fi, err := os.Stat(x.dir); err != nil {
		return &DirError{x.dir, sys.Bare(err)}
	} else if !fi.IsDir() {
		return &DirError{x.dir, syscall.ENOTDIR}
	}
	x.limit()
	x.cmd = nsexec.Command(x.args[0]) // for connect
	if err := x.connect(); err != nil {
		return err
	}
	x.prepareBare(x.args)
	err = x.bare.Start()
	path := x.bare.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(x.dir, path)
	}
	if errors.Is(err, syscall.ENOEXEC) && host.IsText(path) {
		x.prepareBare(slices.Concat([]string{"/bin/sh", x.bare.Path}, x.args[1:]))
		err = x.bare.Start()
	}
	if err != nil {
		x.closeStdin()
		x.bare = nil
		if x.ctx.Err() != nil {
			x.result.TimedOut = x.timeIsUp(err)
			return err
		}
		return &nsexec.Error{Op: nsexec.StepExec, Path: x.args[0], Err: execErrno(err)}
	}
	x.beginFeed()
	return nil
}

// prepareBare makes x.bare a command that is not started yet.
func (x *Execution) prepareBare(args []string) {
	cmd := exec.CommandContext(x.ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = x.dir, x.unsandboxedEnv()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr
	// In a group of its own, it can be killed with everything that it starts; but a terminal belongs to one group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !x.request.Passthrough}
	cmd.WaitDelay = x.grace()
	bare := &bareCommand{Cmd: cmd}
	cmd.Cancel = func() error {
		err := bare.signal(syscall.SIGTERM)
		x.canceled.Store(err == nil)
		return err
	}
	x.bare = bare
}

// execErrno returns why a program could not be executed.
func execErrno(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return syscall.ENOENT
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// unsandboxedEnv is the environment: as in a sandbox, but with the host's own directories.
func (x *Execution) unsandboxedEnv() []string {
	c, own := &x.runner.config, os.Environ()
	var env []string
	for _, kv := range own {
		if name, _, _ := strings.Cut(kv, "="); c.ClearEnv && (name == "PATH" || name == "HOME") {
			env = append(env, kv)
		}
	}
	if !c.ClearEnv {
		env = SafeEnv(own)
	}
	return plan.AddEnv(append(env, "PWD="+x.dir), own, append(c.Env[:len(c.Env):len(c.Env)], x.request.Env...))
}

// bareCommand is a command without a sandbox.
type bareCommand struct {
	*exec.Cmd
	mu    sync.Mutex
	ended bool // it may have been reaped: its number, and that of its group, may be others' now
}

// signal sends a signal to it, and to what it started if it has a group of its own.
func (b *bareCommand) signal(s syscall.Signal) error {
	if !b.SysProcAttr.Setpgid {
		return b.Process.Signal(s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return os.ErrProcessDone
	}
	return unix.Kill(-b.Process.Pid, s)
}

// wait waits for its end, and kills what is left of its group.
func (b *bareCommand) wait() error {
	if b.SysProcAttr.Setpgid {
		b.end()
	}
	return b.Cmd.Wait()
}

// end waits for its end, but does not reap it, so that the number of the group stays its own until what is left of it
// is killed.
func (b *bareCommand) end() {
	_ = sys.Retry(func() error {
		return unix.Waitid(unix.P_PID, b.Process.Pid, new(unix.Siginfo), unix.WEXITED|unix.WNOWAIT, nil)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = unix.Kill(-b.Process.Pid, unix.SIGKILL)
	b.ended = true
}
