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
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	defer theirs.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	process, err := Start([]*os.File{null, null, null, theirs, w}, "once", nil)
	if err != nil {
		return err
	}
	_ = w.Close()
	_ = theirs.Close()
	err = syscall.Sendmsg(pair[0], p.Block(), nil, nil, syscall.MSG_NOSIGNAL)
	if err != nil {
		_ = process.Kill()
	}
	last, perr := records(r)
	state, werr := process.Wait()
	switch {
	case perr != nil:
		err = perr // it says more
	case err != nil:
	case werr != nil && !errors.Is(werr, syscall.ECHILD):
		err = werr
	case state != nil && !state.Success():
		err = fmt.Errorf("the launcher's image ended: %s", state)
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
		}
	}
	if err == nil && taken != nil {
		err = taken(pair[0])
	}
	return err
}

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
