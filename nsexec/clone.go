//go:build linux

package nsexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// A sandbox is set up by two Programs: the first makes the namespaces, which
// depends on little (see profile) and can be done before the command is known;
// the second does all the rest. A small process runs both in one clone; an
// embedding program sends the first to its launcher and the second to the clone.

// stage1 marks steps of the first Program in reports.
const stage1 = 1 << 31

// clone is a running clone and our end of its status pipe.
type clone struct {
	ctx    context.Context // bounds every wait until the command was executed
	pid    int
	status *os.File // read end, closed by exit; nil: none
	sock   sys.FD   // to the clone, until it got its second Program
	gen    int64    // of the launcher that was to clone it
	first  *prog.Program
	waited bool // it was made before it was wanted, and may have died since
	domain bool // its first process ends all others, if it is asked to: nothing does if it is killed

	timedOut bool // the command timed out, as PID 1 has it

	unknown bool             // the reports ended before anybody said its pid
	mounts  bool             // it has a mount namespace already
	marks   *mountprog.Marks // what was made ahead in it; nil: nothing

	counters *sandbox.Counters // nil: nobody asks for them

	childStatus int    // the number of the clone's end of the status pipe, if it inherited it
	text        string // what a failed operation found
}

// statusPipe makes a status pipe. Our end is read through the runtime's poller: a
// goroutine that waits there leaves its processor idle, while one in a blocking
// read would keep the runtime's monitor looking at it every 20 µs.
func statusPipe() (r *os.File, w sys.FD, err error) {
	rfd, w, err := sys.Pipe()
	if err != nil {
		return nil, w, err
	}
	if err := unix.SetNonblock(int(rfd), true); err != nil {
		rfd.Close()
		w.Close()
		return nil, w, err
	}
	return os.NewFile(uintptr(rfd), "status"), w, nil
}

// close gives up a sandbox that did not start a command, and waits for its end,
// whose status it returns: it may have ended by itself before.
func (s *clone) close() (status unix.WaitStatus) {
	s.counters.Close(false)
	s.endSocket()
	// Which process it is, the launcher may not have said yet. Without its socket
	// it ends in any case; with both the reports end.
	for s.pid == 0 && s.status != nil {
		_ = s.status.SetReadDeadline(time.Now().Add(patience))
		r, err := readRecord(s.status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid = s.sender(); s.pid == 0 {
				theLauncher.drop(s.gen) // it hangs
			}
			continue
		}
		if err != nil {
			break
		}
		if r.Kind == prog.RecordPid {
			s.pid = int(r.Value)
		}
	}
	if s.pid == 0 {
		s.pid = s.sender()
	}
	s.sock.Close()
	if s.pid > 0 {
		s.kill()
		if s.domain {
			s.awaitEnd()
		}
		_ = unix.Kill(s.pid, unix.SIGKILL)
		status = sys.Wait(s.pid)
	}
	if s.status != nil {
		_ = s.status.Close()
	}
	return status
}

// patience is how long a sandbox that is killed before it was ready may take to be gone: its
// set-up may hang in a mount.
const patience = time.Second

// giveUp ends a sandbox in which no command was executed, and returns why: err, or that
// the context has ended. Then nobody waits for what may hang.
func (s *clone) giveUp(err error) error {
	if cerr := s.ctx.Err(); cerr != nil {
		go s.close()
		return &Error{Op: "start", Err: cerr}
	}
	if unknown := s.pid == 0; unknown && errors.Is(err, errGone) {
		s.close()
		return s.unborn()
	}
	s.close()
	return err
}

// unborn is the error where the reports ended before anybody said the process id.
func (s *clone) unborn() error {
	s.unknown = true
	err := errGone
	if end := theLauncher.obituary(s.gen); end != "" {
		err = fmt.Errorf("%w: the launcher ended: %s", errGone, end)
	}
	return &Error{Op: "start", Err: err}
}

// countTries are more than making a namespace takes, on a busy machine too: a tenth of a second.
const countTries = 1000

// countFirst opens the counters of s, if they are wanted, while it waits for its second Program: once it has that, it may
// have ended before anybody looks. Which process it is, its first byte says.
func (c *Cmd) countFirst(s *clone) {
	if c.opt.CountUnsent && s.counters == nil && s.pid == 0 && s.sock != sys.None {
		fds := []unix.PollFd{{Fd: int32(s.sock), Events: unix.POLLIN}}
		for until := time.Now().Add(launcherPatience); s.pid == 0 && time.Now().Before(until); {
			if _, err := unix.Poll(fds, int(time.Until(until).Milliseconds())+1); err != nil && err != unix.EINTR {
				break
			}
			if s.pid = s.sender(); fds[0].Revents&unix.POLLHUP != 0 {
				break // await hears why
			}
		}
	}
	c.count(s, countTries)
}

// count opens the counters of s, if they are wanted and its process is known.
func (c *Cmd) count(s *clone, tries int) {
	if c.opt.CountUnsent && s.counters == nil && s.pid > 0 {
		s.counters = sandbox.Count(s.pid, tries)
		c.opt.Counters = s.counters
	}
}

// bound makes reports be read only as long as the context lasts, until release is called.
func (s *clone) bound() (release func() bool) {
	return context.AfterFunc(s.ctx, func() { _ = s.status.SetReadDeadline(time.Unix(1, 0)) })
}

// endSocket tells the clone that nothing more is to be expected.
func (s *clone) endSocket() {
	if s.sock != sys.None {
		_ = unix.Shutdown(int(s.sock), unix.SHUT_WR)
	}
}

// sender is the process id of the clone as the kernel has it from the one byte
// that every clone sends first; 0 if there is none. The launcher is quicker to say
// it, but may be killed before it does.
func (s *clone) sender() int {
	if s.sock == sys.None {
		return 0
	}
	var b [1]byte
	var control [64]byte
	_, n, _, _, err := unix.Recvmsg(int(s.sock), b[:], control[:], unix.MSG_DONTWAIT)
	if err != nil {
		return 0
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return 0
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}

// kill kills the first process, if it is known.
func (s *clone) kill() {
	signal := unix.SIGKILL
	if s.domain {
		signal = unix.Signal(prog.RequestEnd)
	}
	if s.pid > 0 {
		_ = unix.Kill(s.pid, signal)
	}
}

// awaitEnd waits until a process that was asked to end has ended, and not longer than patience: its set-up may hang, in
// which nothing of the command's runs.
func (s *clone) awaitEnd() {
	const step = 5 * time.Millisecond
	for range patience / step {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, s.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != nil && err != unix.EINTR || info.Signo != 0 {
			return
		}
		time.Sleep(step)
	}
}
