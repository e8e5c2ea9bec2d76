//go:build linux

package nsexec

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sys"
)

// Reports: what the launcher and the clone write to the status pipe.

// readRecord reads one Record; after the last it returns errGone.
func readRecord(f *os.File) (r prog.Record, err error) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&r)), prog.RecordSize)
	n, err := f.Read(b)
	if err == io.EOF || err == nil && n != len(b) {
		err = errGone
	}
	return r, err
}

// read reads the next Record of those that awaitPid has left.
func (s *clone) read() (r prog.Record, err error) {
	if len(s.early) > 0 {
		r, s.early = s.early[0], s.early[1:]
		return r, nil
	}
	return readRecord(s.status)
}

func readText(f *os.File, n int) (string, error) {
	b := make([]byte, min(n, unix.PathMax))
	_, err := io.ReadFull(f, b)
	return string(b), err
}

// exit reads what the sandbox reported at its end: the command's wait status, if there was a PID 1 to report it.
func (s *clone) exit() (ws syscall.WaitStatus, ok bool) {
	defer s.closeStatus()
	for {
		r, err := s.read()
		if err != nil {
			return 0, false
		}
		if r.Kind == prog.RecordTimeout {
			s.timedOut = true
		}
		if r.Kind == prog.RecordExit {
			return syscall.WaitStatus(r.Value), true
		}
	}
}

// await reads reports until the command was executed, or something failed; then the sandbox is gone.
func (s *clone) await(second *prog.Program, c *Cmd) (err error) {
	// A mount may hang, and then nobody can wait for the sandbox.
	release := s.bound(c.ctx)
	defer func() {
		if release() && err == nil {
			_ = s.status.SetReadDeadline(time.Time{})
		}
	}()
	executing, given := false, false
	for {
		r, err := s.read()
		if errors.Is(err, errGone) && executing {
			if s.pid == 0 {
				s.close()
				return &Error{Op: "start", Path: c.Path, Err: err}
			}
			return nil // the status pipe was closed by execve
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !given {
			// The command may have begun, and its effects must not be ignored. Once it is killed, all
			// remaining reports arrive soon.
			given = true
			s.kill()
			_ = s.status.SetReadDeadline(time.Now().Add(patience))
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = s.status.SetReadDeadline(time.Time{})
			s.closeLater()
			return &Error{Op: "start", Path: c.Path, Err: c.ctx.Err()}
		}
		if err != nil {
			return s.ended(c, err, given)
		}
		switch r.Kind {
		case prog.RecordPid:
			if s.pid != 0 {
				continue // nobody has to say it: where it can be written to, it is not believed
			}
			if err := s.born(r); err != nil {
				s.close()
				return err
			}
			if given {
				s.kill()
			}
		case prog.RecordStarted:
			if !c.forks() {
				executing = true // or about to
				continue
			}
			if err := s.awaitPid(); err != nil {
				return s.giveUp(err)
			}
			return nil
		case prog.RecordFail:
			if err := s.awaitPid(); err != nil {
				return s.giveUp(err)
			}
			if c.forks() && s.started() {
				return nil
			}
			s.close()
			if (s.marks != nil || s.table != nil) && r.Value&stage1 != 0 {
				noMountsAhead.Store(true)
				return errGone // what was done ahead failed, and another sandbox does without
			}
			return s.failure(r, second)
		case prog.RecordHostProc:
			c.opt.HostProc = true
		case prog.RecordText:
			if s.text, err = readText(s.status, int(r.Value)); err != nil {
				s.close()
				return &Error{Op: "start", Path: c.Path, Err: err}
			}
		}
	}
}

// started reports whether the command was executed although a failure was reported. A process whose set-up failed
// ends, and with it the reports. If PID 1 goes on, the command wrote that report, before PID 1 had its turn.
func (s *clone) started() bool {
	if s.ctx != nil && s.ctx.Err() != nil {
		return false
	}
	_ = s.status.SetReadDeadline(time.Now().Add(patience))
	for {
		switch r, err := s.read(); {
		case err != nil:
			return false
		case r.Kind == prog.RecordStarted:
			_ = s.status.SetReadDeadline(time.Time{})
			return true
		case r.Kind == prog.RecordText:
			if _, err := readText(s.status, int(r.Value)); err != nil {
				return false
			}
		}
	}
}

// ended abandons a sandbox whose reports ended with err, and returns why; killed: the context ended before.
func (s *clone) ended(c *Cmd, err error, killed bool) error {
	unknown := s.pid == 0
	switch status := s.close(); {
	case killed:
		err = c.ctx.Err()
	case unknown && errors.Is(err, errGone):
		return s.unborn()
	case errors.Is(err, errGone) && status.Signaled():
		err = &KilledError{status.Signal()}
	}
	return &Error{Op: "start", Path: c.Path, Err: err}
}

// awaitPid reads the process id, if it is not known yet: another process reports it, or the clone's first byte tells.
func (s *clone) awaitPid() error {
	if s.pid > 0 {
		return nil
	}
	defer func() { _ = s.status.SetReadDeadline(time.Time{}) }()
	gone := false
	for s.pid == 0 {
		_ = s.status.SetReadDeadline(time.Now().Add(launcherPatience))
		r, err := readRecord(s.status)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.pid = s.sender(); s.pid != 0 {
				continue
			}
			if s.ctx.Err() != nil {
				return &Error{Op: "start", Err: s.ctx.Err()}
			}
			if gone {
				s.endSocket() // without which what it has cloned ends
			}
			// A report before its end may have arrived after the last look: look once more.
			gone = gone || theLauncher.gone(s.gen)
			continue
		}
		if err != nil {
			return &Error{Op: "start", Err: err}
		}
		switch {
		case r.Kind == prog.RecordText:
			if s.text, err = readText(s.status, int(r.Value)); err != nil {
				return &Error{Op: "start", Err: err}
			}
		case r.Kind != prog.RecordPid: // its own: it need not wait for who cloned it
			s.early = append(s.early, r)
		default:
			if err := s.born(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// born takes the process id from a report of who cloned it. A command can have written that report, if who cloned it
// has not had its turn since. But then the kernel has told the id already: see sender.
func (s *clone) born(r prog.Record) error {
	if s.pid = s.sender(); s.pid != 0 {
		return nil
	}
	s.pid = r.Process()
	if r.Errno != 0 {
		return &Error{Op: StepClone, Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
	}
	return nil
}

// awaitJoined reads the id of the process in which a first Program continues after it joined namespaces, and waits for
// the processes before that.
func (s *clone) awaitJoined(twice bool) error {
	cloned := 0
	for {
		r, err := readRecord(s.status)
		switch {
		case err != nil:
			return &Error{Op: "start", Err: err}
		case r.Kind == prog.RecordFail:
			return s.failure(r, nil)
		case r.Kind == prog.RecordPid && r.Errno != 0:
			s.pid = 0
			return &Error{Op: StepClone, Path: names(s.first.Flags), Err: syscall.Errno(r.Errno)}
		case r.Kind == prog.RecordPid && r.Op == 0: // the launcher's
			s.pid = r.Process()
		case r.Kind == prog.RecordPid:
			// The process that reports this has ended, or is about to.
			if cloned == 0 {
				if first := s.sender(); first != 0 {
					s.pid = first
				}
			}
			sys.Wait(s.pid)
			s.pid = r.Process()
			if cloned++; twice && cloned == 2 {
				return s.awaitLast()
			} else if !twice {
				return nil
			}
		}
	}
}

// awaitLast reads the process id of a clone, which was first reported as another PID namespace numbers it.
func (s *clone) awaitLast() error {
	s.pid = 0
	for began := time.Now(); time.Since(began) < lastPatience && s.ctx.Err() == nil; {
		if s.pid = s.sender(); s.pid != 0 {
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(s.sock), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(launcherPatience.Milliseconds())); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			if s.pid = s.sender(); s.pid != 0 {
				return nil
			}
			break
		}
	}
	return &Error{Op: "start", Err: errGone}
}

// lastPatience is how long a clone may take to send its first byte.
const lastPatience = 10 * time.Second

// failure turns a report into an error.
func (s *clone) failure(r prog.Record, second *prog.Program) error {
	p := second
	if r.Value&stage1 != 0 {
		p = s.first
	}
	i := int(r.Value &^ stage1)
	e := &Error{Op: "start", Program: int(r.Op), Text: s.text}
	errno, part := prog.SplitErrno(r.Errno)
	e.Err = errno
	if p != nil && i < len(p.Steps) {
		step := &p.Steps[i]
		op, path := step.Where()
		e.Op, e.Path = Step(op), path
		e.Mount, e.Part = int(step.Mount), Part(step.Part)
		e.attach = p.Attaches(int(r.Op))
	}
	if part != 0 {
		e.Part = Part(part)
	}
	return e
}
