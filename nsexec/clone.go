//go:build linux

package nsexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/sys"
)

// Two Programs set up a sandbox. The first makes the namespaces; that depends on little (see profile), so it can run
// before the command is known. The second does all the rest. A small process runs both in one clone: an embedding
// program sends the first to its launcher and the second to the clone.

// stage1 marks steps of the first Program in reports.
const stage1 = 1 << 31

// clone is a running clone and this process's end of its status pipe.
type clone struct {
	ctx    context.Context // bounds every wait until the command was executed
	pid    int
	status *os.File      // read end, closed by exit; nil: none
	sock   sys.FD        // to the clone, until it got its second Program
	gen    int64         // of the launcher that was to clone it
	ids    [2]sys.FileID // of sock and status, if it was made before it was wanted
	first  *prog.Program
	waited bool // it was made before it was wanted, and may have died since
	domain bool // its first process ends all others, if it is asked to: nothing does if it is killed

	early []prog.Record // reports that came before its pid, and were not looked at

	timedOut bool // the command timed out, as PID 1 has it

	unread  bool             // it ended before it received what was sent to it: it ran no command
	exited  bool             // nobody killed it
	unknown bool             // the reports ended before anybody said its pid
	mounts  bool             // it has a mount namespace already
	marks   *mountprog.Marks // what was made ahead in it; nil: nothing
	table   *mountTable      // of the mounts that it copied ahead; nil: it copied none

	counters *sandbox.Counters // nil: nobody asks for them

	unmounted *<-chan struct{} // where closeLater says when the mounts are gone; nil: nobody asks

	childStatus int    // the number of the clone's end of the status pipe, if it inherited it
	text        string // what a failed operation found
}

// statusPipe makes a status pipe. This process's end is read through the runtime's poller: a goroutine that waits there
// leaves its processor idle, while with a blocking read the runtime's monitor would check it every 20 µs.
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

// close abandons a sandbox that did not start a command, waits for its end, and returns its status: it may have ended
// by itself before.
func (s *clone) close() (status unix.WaitStatus) {
	s.forgetLost()
	s.counters.Close(false)
	s.endSocket()
	// The launcher may not have reported the process id yet. Without its socket the process ends in any case; when
	// both are gone, the reports end.
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
			if s.pid = cmp.Or(s.sender(), r.Process()); s.pid == 0 { // as in born
				break // none was made
			}
		}
	}
	if s.pid == 0 {
		s.pid = s.sender()
	}
	if s.other() {
		s.kill()
		if s.domain {
			s.awaitEnd()
		}
		_ = sys.Kill(s.pid, unix.SIGKILL)
		status = sys.Wait(s.pid)
		s.exited = status.Exited()
	}
	if s.sock != sys.None {
		if s.pid == 0 {
			s.awaitHangup()
		}
		e, err := unix.GetsockoptInt(int(s.sock), unix.SOL_SOCKET, unix.SO_ERROR)
		s.unread = s.unread || err == nil && syscall.Errno(e) == leftUnread
		s.sock.Close()
	}
	if s.status != nil {
		_ = s.status.Close()
	}
	return status
}

// awaitHangup waits until nobody has the other end of the socket: of a launcher that is killed, the kernel may close
// the status pipe first.
func (s *clone) awaitHangup() {
	for until := time.Now().Add(patience); ; {
		fds := []unix.PollFd{{Fd: int32(s.sock)}}
		if _, err := unix.Poll(fds, max(0, int(time.Until(until).Milliseconds()))); err != unix.EINTR {
			return
		}
	}
}

// leftUnread is the socket's error, once, if the other end was closed before all that was sent was received.
const leftUnread = unix.ECONNRESET

// patience is how long a sandbox that is killed before it was ready may take to end: its set-up may hang in a mount. It
// is a variable for tests.
var patience = time.Second

// closeLater closes a sandbox, of which the set-up may hang: it waits for no more than patience, and leaves the rest to
// another goroutine. Who needs what the sandbox has mounted waits longer (Options.Unmounted).
func (s *clone) closeLater() {
	closed, gone := make(chan struct{}), make(chan struct{})
	if s.unmounted != nil {
		*s.unmounted = gone
	}
	go func() {
		s.close()
		close(closed)
	}()
	select {
	case <-closed:
		close(gone)
	case <-time.After(patience):
		go func() {
			defer close(gone)
			select {
			case <-closed:
			case <-time.After(unmountPatience):
			}
		}()
	}
}

// unmountPatience is how long others wait for the mounts of a sandbox that was killed. If a mount hangs, it may never
// end.
const unmountPatience = 10 * time.Second

// giveUp ends a sandbox in which no command was executed, and returns why: err, or that the context has ended.
func (s *clone) giveUp(err error) error {
	if cerr := s.ctx.Err(); cerr != nil {
		s.closeLater()
		return &Error{Op: "start", Err: cerr}
	}
	if unknown := s.pid == 0; unknown && errors.Is(err, errGone) {
		s.close()
		return s.unborn()
	}
	s.close()
	return err
}

// unborn returns the error if the reports ended before one of them contained the process id.
func (s *clone) unborn() error {
	s.unknown = true
	err := errGone
	if end := theLauncher.obituary(s.gen); end != "" {
		err = fmt.Errorf("%w: the launcher ended: %s", errGone, end)
	}
	return &Error{Op: "start", Err: err}
}

// countTries are a tenth of a second, more than making a namespace takes, even on a busy machine.
const countTries = 1000

// countFirst opens the counters of s, if they are wanted, while s waits for its second Program: after it has received
// that, it may end before anybody looks. Its first byte tells the process id.
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

// bound makes reading reports end with the context, until release is called. release reports whether it did; after that
// only the caller sets the deadline.
func (s *clone) bound(ctx context.Context) (release func() (ended bool)) {
	if ctx == nil || ctx.Done() == nil {
		return func() bool { return false }
	}
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.status.SetReadDeadline(time.Unix(1, 0))
		close(set)
	})
	return func() bool {
		if stop() {
			return false
		}
		<-set
		return true
	}
}

// endSocket tells the clone that nothing more will be sent.
func (s *clone) endSocket() {
	if s.sock != sys.None {
		_ = unix.Shutdown(int(s.sock), unix.SHUT_WR)
	}
}

// sender returns the clone's process id, as the kernel adds it to the one byte that every clone sends first; 0: there
// is none. The launcher reports the id sooner, but may be killed before it does.
func (s *clone) sender() int {
	if s.sock == sys.None {
		return 0
	}
	var b [1]byte
	var control [64]byte
	_, n, _, _, err := unix.Recvmsg(int(s.sock), b[:], control[:], unix.MSG_DONTWAIT)
	if err != nil {
		s.unread = s.unread || err == leftUnread
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
	if s.other() {
		_ = sys.Kill(s.pid, signal)
	}
}

// other reports whether the first process is known, and not this one: a program that has closed descriptors of this
// package, and opened its own, can have this process at both ends of the socket.
func (s *clone) other() bool { return s.pid > 0 && s.pid != os.Getpid() }

// awaitEnd waits until a process that was asked to end has ended, but not longer than patience, because its set-up may
// hang. No code of the command runs in it.
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
