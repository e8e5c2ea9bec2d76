//go:build linux

package bwrapmode

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/prerun"
	"github.com/nsrun/nsrun/internal/secureexec"
	"github.com/nsrun/nsrun/nsexec"
)

// Run runs a command line of bubblewrap's, as bwrap or, if own is not nil, as another program. It returns the exit
// status.
func Run(argv []string, own *Owner) int {
	r := run{words: argv[1:], own: own}
	extensions := own != nil
	if len(argv) == 2 && argv[1] == "--version" {
		return r.version()
	}
	if err := privileges(); err != "" {
		r.say(false, bwrap.SeverityError, err)
		return 1
	}
	cfg, err := bwrap.Parse(argv[1:], bwrap.Env{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Caps: effectiveCaps(), Extensions: extensions,
		ReadFD: r.readFD, UserNamespaces: haveUserNamespaces,
	})
	for _, w := range cfg.Warnings {
		r.say(w.LevelPrefix, bwrap.SeverityWarning, w.Text)
	}
	if stop, ok := errors.AsType[bwrap.Stop](err); ok {
		switch stop {
		case bwrap.StopHelp:
			text := bwrap.Usage(argv[0], extensions)
			if extensions {
				text += own.Usage
			}
			_, _ = os.Stdout.WriteString(text)
			return 0
		case bwrap.StopVersion:
			return r.version()
		}
		_, _ = os.Stderr.WriteString(bwrap.Usage(argv[0], extensions))
		r.cfg = cfg
		return r.failed(err)
	}
	r.cfg = cfg
	if err == nil {
		err = r.prepare()
	}
	if e := prerun.NotExecuted(); err == nil && e != 0 {
		err = &nsexec.Error{Op: nsexec.StepExec, Path: r.cmd.Path, Err: e}
	}
	if err == nil {
		err = r.start()
	}
	if err == nil {
		return r.wait()
	}
	if killed, ok := errors.AsType[*nsexec.KilledError](err); ok {
		return 128 + int(killed.Signal) // as if it had been killed a moment later
	}
	text := r.message(err)
	if hint := r.hint(err); hint != "" {
		text += " (" + hint + ")"
	}
	r.say(cfg.LevelPrefix, bwrap.SeverityError, text)
	return r.failed(err)
}

// version prints bubblewrap's version, or the owner's.
func (r *run) version() int {
	if r.own != nil {
		return r.own.Version()
	}
	_, _ = os.Stdout.WriteString("bubblewrap 0.12.0\n")
	return 0
}

// RefuseElevated prints that this program refuses to run with more privileges than its caller, and returns the exit
// status.
func RefuseElevated() int {
	text := privileges()
	if text == "" {
		text = secureexec.Err.Error()
	}
	return Refuse(text)
}

// Refuse prints an error as bwrap does, and returns the exit status.
func Refuse(why string) int {
	(&run{}).say(false, bwrap.SeverityError, why)
	return 1
}

func haveUserNamespaces() bool {
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return false
	}
	b, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	return err != nil || string(b) != "0\n"
}

func (r *run) start() error {
	if r.cfg.ForwardSignals {
		r.signals = make(chan os.Signal, 16)
		for _, s := range console.Forwarded {
			if !signal.Ignored(s) {
				signal.Notify(r.signals, s)
			}
		}
	} else {
		plainSignals()
	}
	if r.cfg.DieWithParent {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return &bwrap.Error{Text: "prctl", Err: err}
		}
	}
	started := make(chan struct{})
	if r.signals != nil {
		go r.forward(started)
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	close(started)
	giveUpPrivileges()
	r.closeInherited()
	return nil
}

// forward forwards signals to COMMAND. If it does not start, because a file system does not answer, the first one that
// asks for that ends this program.
func (r *run) forward(started <-chan struct{}) {
	var early []os.Signal
	var asked os.Signal
	var late <-chan time.Time
	for {
		select {
		case s := <-r.signals:
			if early = append(early, s); late == nil && s != unix.SIGUSR1 && s != unix.SIGUSR2 {
				asked, late = s, time.After(console.Patience)
			}
			continue
		case <-late:
			console.EndBy(asked.(syscall.Signal))
		case <-started:
		}
		break
	}
	for _, s := range early {
		_ = r.cmd.Process.Signal(s)
	}
	for s := range r.signals {
		_ = r.cmd.Process.Signal(s)
	}
}

// closeInherited closes the descriptors that the command has inherited, so that the other ends notice when the command
// closes them. Our own descriptors are close-on-exec.
func (r *run) closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 || r.cfg.JSONStatusFD.Set && fd == r.cfg.JSONStatusFD.Value {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// giveUpPrivileges drops the privileges that this process does not need to wait for the command.
func giveUpPrivileges() {
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if os.Getuid() == 0 {
		// Once this process has no capabilities, a root without capabilities in the sandbox could trace it.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0])), 0)
}

// plainSignals restores the default action of signals, for which the Go runtime installs handlers.
func plainSignals() {
	var handler, now [4]uintptr // struct sigaction
	for _, s := range [...]syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTRAP, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
		unix.SIGALRM, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGSYS,
	} {
		const ignored = 1 // SIG_IGN
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if e == 0 && now[0] != ignored {
			handler[0] = uintptr(prerun.Ignored() >> (s - 1) & 1) // SIG_IGN, or SIG_DFL
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&handler)), 0, 8, 0, 0)
		}
	}
}

// wait waits for COMMAND, and returns its exit status.
func (r *run) wait() int {
	err := r.cmd.Wait()
	status := 0
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		status = exitStatus(r.cmd.ProcessState)
	} else if err != nil {
		r.say(r.cfg.LevelPrefix, bwrap.SeverityError, err.Error())
		status = 1
	}
	if r.cfg.JSONStatusFD.Set {
		_, _ = unix.Write(r.cfg.JSONStatusFD.Value, exitJSON(status))
	}
	return status
}

// exitStatus returns the exit status as a shell does.
func exitStatus(ps *os.ProcessState) int {
	if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ps.ExitCode()
}
