//go:build linux

package nsexec

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// stolen is the error if Wait cannot tell how the command ended.
func stolen() error {
	return fmt.Errorf("%w (something else in this program has waited for the process: how it ended is not known)", unix.ECHILD)
}

// process is a handle for a child of this process that nobody has waited for. It holds a pidfd, so that no signal goes
// to a later process with the same number. A program that is its own launcher is small: no other code in it waits for
// children.
func process(pid int) *os.Process {
	if !reexec.InProcess {
		if p, err := os.FindProcess(pid); err == nil {
			return p
		}
	}
	return &os.Process{Pid: pid}
}

// send is Process.Signal, also where a filter refuses the call that this needs.
func (c *Cmd) send(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if ok && c.lostHandle() {
		return c.byNumber(func(handle sys.FD) error { return unix.PidfdSendSignal(int(handle), number, nil, 0) })
	}
	err := c.Process.Signal(sig)
	if !ok || !reexec.InProcess || err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return sys.Kill(c.Process.Pid, number) // nobody else waits for it
}

// Signal sends a signal to the command, through PID 1 if there is one. It is like Process.Signal,
// except for SIGSTOP: Process.Signal would stop PID 1, which could then not pass the signal on.
// Signal with SIGSTOP stops everything in the sandbox, and the next SIGCONT continues everything.
// If the PID namespace is shared, it stops only the command. With HoldSignals it is Process.Signal.
func (c *Cmd) Signal(sig os.Signal) error {
	if c.Process == nil {
		return &Error{Op: "signal", Path: c.Path, Err: errors.New("not started")}
	}
	if sig == syscall.SIGKILL && c.opt.Confinement != nil {
		return c.send(syscall.Signal(prog.RequestEnd)) // killing the reaper would leave the others running
	}
	if !c.forks() || c.opt.HoldSignals {
		return c.send(sig)
	}
	switch sig {
	case syscall.SIGSTOP, syscall.SIGCONT:
	case syscall.Signal(prog.RequestSignal): // with a value: without one it asks to stop
		return c.ask(prog.RequestSignal, 0)
	default:
		return c.send(sig)
	}
	if sig == syscall.SIGSTOP {
		err := c.ask(prog.RequestSignal, prog.RequestStop)
		if errors.Is(err, unix.EAGAIN) {
			// The command can use up all signals with a value that its user may have pending, or lower this limit of
			// PID 1. A signal without a value always arrives.
			err = c.send(syscall.Signal(prog.RequestSignal))
		}
		return err
	}
	// The first wakes PID 1, which may have been stopped itself.
	err := c.ask(int32(syscall.SIGCONT), prog.RequestContinue)
	if err == nil {
		err = c.ask(prog.RequestSignal, prog.RequestContinue)
	}
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return c.send(sig)
}

// ask sends PID 1 a signal with a value.
func (c *Cmd) ask(signo int32, value uint64) error {
	info := prog.Request{Signo: signo, Code: prog.RequestCode, Value: value}
	send := func(handle uintptr) error {
		return unix.PidfdSendSignal(int(handle), unix.Signal(info.Signo), (*unix.Siginfo)(unsafe.Pointer(&info)), 0)
	}
	var err error
	werr := c.Process.WithHandle(func(handle uintptr) { err = send(handle) })
	if errors.Is(werr, os.ErrNoHandle) {
		var fd int
		if fd, werr = unix.PidfdOpen(c.Process.Pid, 0); werr == nil {
			err = send(uintptr(fd))
			_ = unix.Close(fd)
		}
	}
	if werr != nil {
		err = werr
	}
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	return err
}
