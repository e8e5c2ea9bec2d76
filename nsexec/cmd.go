//go:build linux

package nsexec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
)

// Cmd is a command to run in a sandbox. The fields down to WaitDelay are those of exec.Cmd and have the same meaning,
// except for the differences in the package comment. A Cmd cannot be used again after Start.
type Cmd struct {
	// Path is the program, in the sandbox. Without a slash it is looked up there along PATH.
	Path string
	// Args are the arguments, beginning with the name of the command. Empty: only Path.
	Args []string
	// Env is the environment, "key=value"; of several values for a key the last one counts. Nil: BaseEnv, and PWD
	// where Dir is set.
	Env []string
	// Dir is the working directory, in the sandbox; it must exist. Empty: the
	// caller's, where the sandbox has that path, else "/".
	Dir string

	// Stdin, Stdout and Stderr: nil is /dev/null, an *os.File is passed as it is,
	// anything else is copied through a pipe by a goroutine.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// ExtraFiles become descriptors 3, 4, …; a nil entry is a closed one.
	ExtraFiles []*os.File
	// Layers are detached mounts, see fsmount(2), that mounts.Layer attaches. The command does not
	// get these descriptors. Nil: none.
	Layers []*os.File

	// Process is PID 1 of the sandbox, or the command itself if the PID namespace is shared. Start
	// sets it. PID 1 passes signals on to the command, except SIGKILL and SIGSTOP: see Signal.
	Process *os.Process
	// ProcessState says how the command ended. Wait sets it. Times and resource usage include PID
	// 1. They are zero if something else in this program waited for the process, for example by
	// wait4(-1).
	ProcessState *os.ProcessState
	// Err is an error from before Start; Start returns it. Nil: none.
	Err error
	// Cancel is called when the context of CommandContext ends, which has set it to one that kills. Nil: nothing is done
	// then, except for WaitDelay.
	Cancel func() error
	// WaitDelay limits how long Wait waits after the context has ended, or for
	// pipes that others keep open. Zero: no limit.
	WaitDelay time.Duration

	// Mounts is the file system. Nil: an empty one.
	Mounts mounts.Plan
	// Share are the namespaces shared with the caller. Zero: none.
	Share Namespace
	// UIDMap and GIDMap say which ids exist in the user namespace. Nil: the
	// caller's own, and for root all that it has.
	UIDMap, GIDMap []IDMap
	// Credential are the command's user and group ids, as numbered in the sandbox. Nil: the caller's.
	Credential *Credential
	// Hostname is the name of the host in a new UTS namespace. Empty: the caller's.
	Hostname string
	// Capabilities are those of the command in its user namespace (capabilities(7)). They are also
	// the limit for every program that it executes. Zero: none.
	Capabilities Capabilities
	// Seccomp are filters for the command and every program that it executes; all of them apply
	// (seccomp(2)). See DefaultFilter. Nil: none.
	Seccomp []Filter
	// Rlimits are resource limits, see setrlimit(2). Nil: the caller's.
	Rlimits []Rlimit
	// Umask of the command. Nil: the caller's (for an embedding program, as it was when the launcher was started).
	Umask *int
	// NewSession always gives the command a session of its own, without a terminal (setsid(2)).
	// False: it gets one only if none of its three standard descriptors is a terminal; otherwise
	// Ctrl-C and job control work as for any other command.
	NewSession bool
	// Background lets processes that the command leaves running continue, and ends nothing with the caller; Wait
	// returns when the command has ended. False: everything ends with the command, and with the caller.
	Background bool
	// Cgroup is an open directory of a cgroup v2 hierarchy. The sandbox is created in this cgroup
	// (CLONE_INTO_CGROUP) and executes nothing outside it. It is the root of a new cgroup
	// namespace. Nil: the caller's cgroups.
	Cgroup *os.File
	// HideAbstract makes the kernel refuse connections to abstract unix sockets (unix(7)) that the
	// command did not make itself. If the network namespace is shared, the command could otherwise
	// connect to all of the host's. It needs Linux 6.12 with Landlock (landlock(7)); without it,
	// Start returns an *Error with Op StepLandlock. False: the sockets can be reached.
	HideAbstract bool

	// Options that only packages of this module set, see sandbox.Of.
	opt sandbox.Options

	ctx     context.Context
	kill    func() error // what Cancel is where nobody has set it
	handle  sys.FileID   // of Process, if the context can end
	started bool
	sb      *clone
	devNull *os.File
	left    *os.File // the mount namespace of the sandbox (Options.LeaveMounts); nil: this process does not hold it
	// Files of the child and of this process that have to be closed, and the goroutines that copy.
	childFiles, parentFiles []io.Closer
	handed                  chan error // that the Supervisor was started early; nil: nobody waits for that
	copies                  []func() copied
	copyErrs                chan copied
	outputs                 []*os.File // to be copied
	ctxDone                 chan error
}

// Credential are user and group ids, as numbered in the sandbox.
type Credential struct {
	UID, GID uint32
	// Groups are the supplementary groups. Nil: none.
	Groups []uint32
}

// Rlimit is one resource limit.
type Rlimit struct {
	Resource   int // unix.RLIMIT_…
	Soft, Hard uint64
}

// Command returns a Cmd for the program and its arguments.
func Command(name string, arg ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, arg...)}
}

// CommandContext is like Command, but ends the sandbox if ctx ends before the command does.
func CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	if ctx == nil {
		panic("nil Context")
	}
	c := Command(name, arg...)
	c.ctx = ctx
	c.kill = func() error { return c.Signal(syscall.SIGKILL) }
	c.Cancel = c.kill
	return c
}

// BaseEnv returns the environment of a command whose Env is nil: the caller's variables PATH, HOME,
// USER, LOGNAME, SHELL, TERM, TZ, LANG and LC_*.
func BaseEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG":
			env = append(env, kv)
		default:
			if strings.HasPrefix(name, "LC_") {
				env = append(env, kv)
			}
		}
	}
	return env
}

// String returns the command for people, without quoting.
func (c *Cmd) String() string {
	if len(c.Args) < 2 {
		return c.Path
	}
	return c.Path + " " + strings.Join(c.Args[1:], " ")
}

// Environ returns the environment that the command will get.
func (c *Cmd) Environ() []string {
	switch {
	case c.Env != nil && c.opt.Bubblewrap: // as it is, also before the Go runtime, where nothing can be allocated
		return c.Env
	case c.Env != nil:
		return lastValues(c.Env)
	case c.Dir != "" && !c.opt.Bubblewrap: // see chdir
		return append(BaseEnv(), "PWD="+path.Join("/", c.Dir))
	}
	return BaseEnv()
}

// lastValues returns env with the last value of each variable alone, as in os/exec: of several values, some programs
// would take the first.
func lastValues(env []string) []string {
	list, seen := make([]string, 0, len(env)), make(map[string]bool, len(env))
	for _, kv := range slices.Backward(env) {
		name, _, assigned := strings.Cut(kv, "=")
		if kv == "" || assigned && seen[name] {
			continue
		}
		seen[name] = seen[name] || assigned
		list = append(list, kv)
	}
	slices.Reverse(list)
	return list
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. If Stderr is nil, an
// *exec.ExitError carries what the command wrote there.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, &Error{Op: "start", Path: c.Path, Err: errors.New("Stdout already set")}
	}
	var out bytes.Buffer
	c.Stdout = &out
	capture := c.Stderr == nil
	var errOut headTail
	if capture {
		c.Stderr = &errOut
	}
	err := c.Run()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && capture {
		ee.Stderr = errOut.bytes()
	}
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error together.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, &Error{Op: "start", Path: c.Path, Err: errors.New("Stdout or Stderr already set")}
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// Start starts the command. It returns nil only after the program was executed. If the sandbox
// could not be set up, the error is an *Error.
func (c *Cmd) Start() error {
	if c.started {
		return &Error{Op: "start", Path: c.Path, Err: errors.New("already started")}
	}
	c.started = true
	ok := false
	defer func() {
		closeAll(c.childFiles)
		c.childFiles = nil
		if !ok {
			closeAll(c.parentFiles)
			c.parentFiles = nil
		}
	}()
	if c.Err != nil {
		return c.Err
	}
	if secureexec.On() {
		return &Error{Op: "start", Path: c.Path, Err: secureexec.Err}
	}
	if c.Path == "" && !c.opt.Bubblewrap {
		return &Error{Op: StepExec, Err: errors.New("no command")}
	}
	if c.Cancel != nil && c.ctx == nil {
		return &Error{Op: "start", Path: c.Path, Err: errors.New("a Cmd with Cancel was not made by CommandContext")}
	}
	if c.ctx != nil && c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	files, err := c.files()
	if err != nil {
		return &Error{Op: "start", Path: c.Path, Err: err}
	}
	if c.opt.OwnRoot {
		c.givePipes(files[:3])
	}
	answer, files, err := c.gate(files)
	if err != nil {
		return err
	}
	supervisor, files, err := c.supervise(files)
	if err != nil {
		_ = answer(false)
		return err
	}
	defer c.endSupervise(supervisor)
	mounts, files, err := c.leaveMounts(files)
	if err != nil {
		_ = answer(false)
		return err
	}
	defer mounts.Close()
	c.sb, err = start(c, files)
	refused := answer(err != nil)
	if err == nil && refused != nil {
		c.sb.close()
	}
	if refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	if err := c.handedOver(supervisor); err != nil {
		c.sb.close()
		return err
	}
	ok = true
	c.left = receiveMounts(mounts)
	c.Process = process(c.sb.pid)
	ends := c.ctx != nil && c.ctx.Done() != nil && (c.Cancel != nil || c.WaitDelay != 0)
	if ends {
		c.identify() // before copies are made: a Writer may send signals
	}
	c.beginCopies()
	if ends {
		c.watch()
	}
	return nil
}

// context is the one of CommandContext.
func (c *Cmd) context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// watch cancels the command when the context ends. It sends on ctxDone the error that Wait returns for that; nil: the
// command ended first.
func (c *Cmd) watch() {
	c.ctxDone = make(chan error)
	go func() {
		select {
		case c.ctxDone <- nil:
			return
		case <-c.ctx.Done():
		}
		err := c.cancel()
		if c.WaitDelay == 0 {
			c.tell(err)
			return
		}
		timer := time.NewTimer(c.WaitDelay)
		select {
		case c.ctxDone <- err:
			timer.Stop()
			return
		case <-timer.C:
		}
		if c.Signal(syscall.SIGKILL) == nil {
			err = c.ctx.Err()
		}
		c.tell(err) // awaitCopies does not wait for who still has an end of a pipe
	}()
}

// cancel calls Cancel. It returns the context's error if that may be why the command ends.
func (c *Cmd) cancel() error {
	if c.Cancel == nil {
		return nil
	}
	switch err := c.Cancel(); {
	case err == nil:
		return c.ctx.Err()
	case !errors.Is(err, os.ErrProcessDone):
		return err
	}
	return nil
}

// Wait waits for the command to end and for all copying from and to it. It
// returns nil for exit status 0, else an *exec.ExitError.
func (c *Cmd) Wait() error {
	if c.Process == nil {
		return &Error{Op: "wait", Path: c.Path, Err: errors.New("not started")}
	}
	if c.ProcessState != nil {
		return &Error{Op: "wait", Path: c.Path, Err: errors.New("Wait was already called")}
	}
	ws, told := c.sb.exit()
	c.opt.TimedOut = c.sb.timedOut
	var state *os.ProcessState
	var err error
	if told && c.Background {
		// PID 1 may stay for long, so a goroutine waits for it.
		state, err = c.newState(ws)
		go func() { _, _ = c.Process.Wait() }()
	} else {
		if c.lostHandle() {
			state, err = c.waitByNumber()
		} else {
			state, err = c.Process.Wait()
		}
		switch {
		case told && state != nil:
			setStatus(state, ws)
		case !errors.Is(err, unix.ECHILD):
		case told: // somebody else has waited for PID 1, but it has said how the command ended
			state, err = c.newState(ws)
		default:
			err = &Error{Op: "wait", Path: c.Path, Err: stolen()}
		}
	}
	c.ProcessState = state
	c.unmount()
	c.awaitDeadline()
	if err == nil && !state.Success() {
		err = &exec.ExitError{ProcessState: state}
	}
	c.sb.counters.Close(err != nil)
	if c.ctxDone != nil {
		// As in os/exec: a bad exit status, which SIGKILL causes, says more.
		if cerr := <-c.ctxDone; err == nil {
			err = cerr
		}
	}
	if cerr := c.awaitCopies(); err == nil {
		err = cerr
	}
	closeAll(c.parentFiles)
	c.parentFiles = nil
	return err
}

// cwd is the physical path of the caller's working directory, or "/" if that was removed.
func cwd() string {
	if dir, ok := getcwd(); ok {
		return dir
	}
	return "/"
}

// getcwd is the caller's working directory, if it has one.
func getcwd() (dir string, ok bool) {
	var buf [unix.PathMax]byte
	n, err := unix.Getcwd(buf[:])
	if err != nil || n < 2 || buf[0] != '/' {
		return "", false
	}
	return string(buf[:n-1]), true
}
