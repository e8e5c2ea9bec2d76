//go:build linux

package nsexec

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
)

// The end of the second Program: where the command runs, which program it is, and what it must not inherit.

// chdir adds the change of the working directory, and returns the environment and its address; bwrap's variable for
// the directory is only there.
func (c *Cmd) chdir(b *prog.Builder) (env []string, envv prog.Ptr) {
	env = c.Environ()
	if c.Dir != "" {
		b.Step("chdir", c.Dir)
		b.Call(prog.SysChdir, b.String(c.Dir))
	}
	if !c.opt.Bubblewrap {
		if c.Dir == "" {
			b.Step("chdir", "/")
			b.Call(prog.SysChdir, b.String(cwd())).Tolerate(syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP)
		}
		return env, b.Strings(env)
	}
	if c.Dir != "" {
		envv, _ = withPWD(b, env, c.Dir)
		return env, envv
	}
	envv, at := withPWD(b, env, "/")
	wd := c.opt.WorkingDir
	if wd == "" {
		wd, _ = getcwd()
	}
	b.Step("chdir", "/")
	var done [2]prog.Label
	for i, dir := range [...]string{wd, getenv(env, "HOME")} {
		if dir == "" {
			continue
		}
		there := b.Call(prog.SysChdir, b.String(dir)).TolerateAny().OnTolerated()
		b.Call(prog.Store, (envv + prog.Ptr(8*at)).Arg(), b.Concat("PWD=", dir))
		done[i] = b.Jump()
		b.Here(there)
	}
	b.Here(done[:]...)
	return env, envv
}

// withPWD adds an environment in which PWD is dir, and returns its address. As in the C library, a variable that was
// set keeps its place.
func withPWD(b *prog.Builder, env []string, dir string) (envv prog.Ptr, at int) {
	envv, at = b.Zero(8*(len(env)+2)), -1
	for i, e := range env {
		if at < 0 && strings.HasPrefix(e, "PWD=") {
			at = i
			continue
		}
		b.Relocate(envv, i, b.String(e))
	}
	if at < 0 {
		at = len(env)
	}
	b.Relocate(envv, at, b.Concat("PWD=", dir))
	return envv, at
}

func getenv(env []string, name string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name); ok && v != "" && v[0] == '=' {
			return v[1:]
		}
	}
	return ""
}

// defaultPath is where commands are looked for if the environment has no PATH.
const (
	defaultPath    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	bubblewrapPath = "/bin:/usr/bin" // the C library's, see confstr(3)
)

// execute adds the execution of the command, and before that what keeps it from sharing things with the set-up. status
// is the number of the status pipe.
func (c *Cmd) execute(b *prog.Builder, env []string, envv prog.Ptr, umask prog.Slot, status int, sockets []prog.Slot) error {
	if !b.Fixed() {
		if err := c.holdsNUL(env); err != nil {
			return &Error{Op: StepExec, Path: c.Path, Err: err}
		}
	}
	b.Step("exec", c.Path)
	if c.Umask != nil {
		b.Call(prog.SysUmask, prog.Int(*c.Umask&0o777))
	} else {
		b.Call(prog.SysUmask, umask.Arg())
	}
	b.Call(prog.SysSigprocmask, prog.Int(unix.SIG_SETMASK), b.Words(c.signalMask()).Arg(), prog.Null, prog.Int(8))
	for n := range 64 {
		if c.opt.Ignore&(1<<n) != 0 {
			ignore := b.Words(1, 0, 0, 0) // struct sigaction: SIG_IGN
			b.Call(prog.SysSigaction, prog.Int(n+1), ignore.Arg(), prog.Null, prog.Int(8))
		}
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	argv, shell := b.Strings(args), prog.Null
	if c.opt.Bubblewrap || c.opt.Scripts {
		words := b.Zero(8 * (len(args) + 2))
		b.Relocate(words, 0, b.String("/bin/sh"))
		for i := 1; i < len(args); i++ {
			b.Relocate(words, i+1, b.String(args[i]))
		}
		shell = words.Arg()
	}
	if !c.forks() {
		// No process will be left to report that the command was executed. So this one reports that it is about
		// to execute it; otherwise it would look like a process that was killed before.
		b.Call(prog.SysWrite, prog.Int(status), b.Words(prog.RecordStarted, 0).Arg(), prog.Int(prog.RecordSize)).Full()
	}
	if c.HideAbstract && c.opt.Confinement == nil {
		hideAbstract(b)
	}
	if c.opt.Supervisor != nil {
		superviseCommand(b, c.opt.Supervisor, c.supervisorFile(status), sockets)
		c.limitFiles(b)
	}
	// Filters come last, so that they need not allow the calls of the set-up and of PID 1.
	for _, f := range c.Seccomp {
		f.install(b, c.opt.Bubblewrap)
	}
	if c.opt.Begun != 0 {
		b.Call(prog.Store, prog.Int(c.opt.Begun), prog.Int(1))
		b.Call(prog.SysMunmap, prog.Int(c.opt.Begun), prog.Int(c.opt.PageSize)).TolerateAny()
	}
	b.Step("exec", c.Path)
	path := defaultPath
	if c.opt.Bubblewrap {
		path = bubblewrapPath
	}
	try := func(dir, separator string) {
		how := 0
		if !c.opt.Bubblewrap {
			how = prog.ExecTextOnly
			if separator != "" {
				how |= prog.ExecExact
			}
		}
		b.Call(prog.Exec, b.Concat(dir, separator, c.Path), argv.Arg(), envv.Arg(), shell, prog.Int(how)).
			Tolerate(syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR, syscall.ENODEV, syscall.ETIMEDOUT, syscall.ELOOP, syscall.ENAMETOOLONG)
	}
	if strings.IndexByte(c.Path, '/') >= 0 || c.Path == "" {
		try("", "")
	} else {
		search(env, path, try)
	}
	b.Call(prog.ExecFail)
	return nil
}

// hideAbstract adds a Landlock domain that restricts nothing else.
func hideAbstract(b *prog.Builder) {
	b.Step("landlock", AbstractSockets)
	rules := b.Slot()
	attr := b.Words(0, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET) // struct landlock_ruleset_attr
	b.Call(prog.SysLandlockCreate, attr.Arg(), prog.Int(24), prog.Int(0)).To(rules)
	b.Call(prog.SysLandlockRestrict, rules.Arg(), prog.Int(0))
	b.Close(rules)
}

// signalMask is the mask of blocked signals that the command inherits: the calling thread's.
func (c *Cmd) signalMask() uint64 {
	var set unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, nil, &set) != nil {
		return 0
	}
	if c.opt.Bubblewrap {
		set.Val[0] &^= 1 << (unix.SIGCHLD - 1)
	}
	return set.Val[0]
}

// A nulError says which field of a Cmd has a string that the kernel would cut off.
type nulError struct{ field string }

func (e *nulError) Error() string { return e.field + " contains a zero byte" }

func (e *nulError) Unwrap() error { return syscall.EINVAL }

// They are variables because package prerun reaches this code, and cannot format texts.
var (
	pathNUL = &nulError{"Path"}
	dirNUL  = &nulError{"Dir"}
	hostNUL = &nulError{"Hostname"}
	argsNUL = &nulError{"Args"}
	envNUL  = &nulError{"Env"}
)

// holdsNUL returns an error if the kernel would cut off a string.
func (c *Cmd) holdsNUL(env []string) *nulError {
	for _, field := range [...]struct {
		err  *nulError
		list []string
	}{{pathNUL, []string{c.Path}}, {dirNUL, []string{c.Dir}}, {hostNUL, []string{c.Hostname}}, {argsNUL, c.Args}, {envNUL, env}} {
		for _, s := range field.list {
			if strings.IndexByte(s, 0) >= 0 {
				return field.err
			}
		}
	}
	return nil
}

// search calls try with the directories in which execvp(3) looks.
func search(env []string, path string, try func(dir, separator string)) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for more := true; more; {
		var dir string
		if dir, path, more = strings.Cut(path, ":"); dir == "" {
			dir = "."
		}
		try(dir, "/")
	}
}
