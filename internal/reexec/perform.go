//go:build linux && !nsrun_image

package reexec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/prog"
)

// Perform runs a Program in a new process that executes the image, and waits for its end. The Program must end with
// exit_group(0), and gets no descriptors. It can write to ControlFd, a socket; taken, if it is not nil, then gets the
// other end. The error of a system call is its errno.
func Perform(p *prog.Program, taken func(sock int) error) error {
	w, err := Hire()
	if err != nil {
		return err
	}
	defer w.hangUp()
	if err = w.Send(p); err != nil {
		_ = w.process.Kill()
	}
	err = w.end(err)
	if err == nil && taken != nil {
		err = taken(w.sock)
	}
	return err
}

// A Worker is a process that executes the image and runs Programs, one after the other: each but the last ends with
// Receive from ControlFd. It ends when this process does.
type Worker struct {
	process *os.Process
	sock    int
	status  *os.File
}

// Hire starts a Worker.
func Hire() (*Worker, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	w := &Worker{sock: pair[0]}
	if err := w.start(theirs); err != nil {
		w.hangUp()
		_ = w.status.Close()
		return nil, err
	}
	return w, nil
}

func (w *Worker) start(theirs *os.File) error {
	r, status, err := os.Pipe()
	if err != nil {
		return err
	}
	w.status = r
	defer status.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		null = status // the image uses neither, and what a probe finds missing is then not /dev/null
	} else {
		defer null.Close()
	}
	w.process, err = Start([]*os.File{null, null, null, theirs, status}, "once", nil)
	return err
}

// Send sends the next Program, with descriptors: in the Worker each gets the lowest number that is free.
func (w *Worker) Send(p *prog.Program, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	return syscall.Sendmsg(w.sock, p.Block(), rights, nil, syscall.MSG_NOSIGNAL)
}

// Pid is the Worker's process id.
func (w *Worker) Pid() int { return w.process.Pid }

// Sock is the other end of ControlFd; it belongs to w. At its end, the Worker has ended.
func (w *Worker) Sock() int { return w.sock }

// Dismiss ends the Worker. The error is that of its last Program; that of a system call is its errno.
func (w *Worker) Dismiss() error {
	w.hangUp()
	return w.end(nil)
}

// hangUp closes the socket, at the end of which the Worker exits.
func (w *Worker) hangUp() {
	if w.sock >= 0 {
		_ = syscall.Close(w.sock)
		w.sock = -1
	}
}

// end waits for the end of the Worker, and returns what failed; err is what failed before.
func (w *Worker) end(err error) error {
	last, perr := records(w.status)
	_ = w.status.Close()
	state, werr := w.process.Wait()
	switch {
	case perr != nil:
		err = perr // it says more
	case err != nil:
	case werr != nil && !errors.Is(werr, syscall.ECHILD):
		err = werr
	case state != nil && !state.Success():
		err = fmt.Errorf("the launcher's image ended: %s", state)
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && filtered(ws) {
			err = ErrFiltered
		}
	}
	if last > 0 { // the Program went on in another process, which is our child
		var ws syscall.WaitStatus
		for {
			if _, e := syscall.Wait4(last, &ws, 0, nil); e != syscall.EINTR {
				break
			}
		}
		if err == nil && ws != 0 {
			err = fmt.Errorf("the launcher's image ended: wait status %#x", uint32(ws))
			if filtered(ws) {
				err = ErrFiltered
			}
		}
	}
	return err
}

// ErrFiltered says that a seccomp filter ended the process at a system call of a Program.
var ErrFiltered = errors.New("a seccomp filter ends processes at a system call that this needs (SIGSYS), instead of refusing it")

func filtered(ws syscall.WaitStatus) bool { return ws.Signaled() && ws.Signal() == syscall.SIGSYS }

// records reads what a Program reports: the process in which it went on, if there is one, and what failed.
func records(r io.Reader) (last int, err error) {
	for {
		var rec prog.Record
		if _, rerr := io.ReadFull(r, unsafe.Slice((*byte)(unsafe.Pointer(&rec)), prog.RecordSize)); rerr != nil {
			return last, err
		}
		switch {
		case rec.Kind == prog.RecordPid:
			last = rec.Process()
		case rec.Kind == prog.RecordFail && err == nil:
			err, _ = prog.SplitErrno(rec.Errno)
		}
	}
}
