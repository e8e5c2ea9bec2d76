//go:build linux

package nsexec

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// A gate keeps a sandbox that is set up from executing the command until Options.Gate has said yes. The sandbox reads a
// byte from a pipe; if the pipe ends without one, the sandbox fails.

var (
	errGateInherit = errors.New("a sandbox that inherits all descriptors has no gate")
	errGateEnded   = errors.New("Gate did not return")
)

// gate appends the pipe's end to the command's files, and calls Options.Gate. Call answer when the sandbox has started,
// or failed to.
func (c *Cmd) gate(files []*os.File) (answer func(failed bool) error, _ []*os.File, err error) {
	if c.opt.Gate == nil {
		return func(bool) error { return nil }, files, nil
	}
	if c.opt.Inherit || c.opt.Bubblewrap {
		return nil, nil, &Error{Op: "start", Path: c.Path, Err: errGateInherit}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	c.childFiles = append(c.childFiles, r)
	done := make(chan error, 1)
	go func() {
		err := errGateEnded // where Gate does not return
		defer func() {
			done <- err
			_ = w.Close()
		}()
		if err = c.opt.Gate(); err == nil {
			// One byte for each of the sandboxes that complete may try. The waiting process may have ended.
			_, _ = w.Write([]byte{1, 1})
		}
	}()
	return func(failed bool) error {
		if !failed {
			return <-done // which the sandbox has waited for
		}
		select {
		case err := <-done:
			return err
		case <-c.context().Done():
		}
		select {
		case err := <-done:
			return err
		default:
			return nil // nobody waits for Gate any more
		}
	}, append(files, r), nil
}

// gateFile is the number of the gate's end in the sandbox, -1 if there is none. After it come the supervisor's socket,
// the socket for the mounts and the status pipe.
func (c *Cmd) gateFile(status int) int {
	if c.opt.Gate == nil {
		return -1
	}
	return c.supervisorFile(status) - 1
}

func (c *Cmd) stepGate(b *prog.Builder, status int) {
	fd := c.gateFile(status)
	if fd < 0 {
		return
	}
	b.Step("start", "gate")
	b.Call(prog.SysRead, prog.Int(fd), b.Zero(8).Arg(), prog.Int(1)).Full()
	b.Call(prog.SysClose, prog.Int(fd))
}
