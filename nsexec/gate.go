//go:build linux

package nsexec

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// A gate keeps a sandbox that is set up from executing the command before Cmd.Gate has said yes. The sandbox reads a byte
// from a pipe; where the pipe ends without one it fails.

var errGateInherit = errors.New("a sandbox that inherits all descriptors has no gate")

// gate adds the pipe's end to the command's files, of which it is the last, and calls Cmd.Gate. The answer is to be taken
// when the sandbox has started, or failed to.
func (c *Cmd) gate(files []*os.File) (answer func() error, _ []*os.File, err error) {
	if c.Gate == nil {
		return func() error { return nil }, files, nil
	}
	if c.Inherit || c.Bubblewrap {
		return nil, nil, &Error{Op: "start", Path: c.Path, Err: errGateInherit}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, &Error{Op: "start", Path: c.Path, Err: err}
	}
	c.childFiles = append(c.childFiles, r)
	done := make(chan error, 1)
	go func() {
		err := c.Gate()
		if err == nil {
			_, _ = w.Write([]byte{1}) // the sandbox may be gone
		}
		_ = w.Close()
		done <- err
	}()
	return func() error { return <-done }, append(files, r), nil
}

// stepGate waits at the gate, whose end has a number.
func (c *Cmd) stepGate(b *prog.Builder, status int) {
	if c.Gate == nil {
		return
	}
	fd := status - 1
	if c.Supervisor != nil {
		fd-- // its socket comes behind
	}
	b.Step("start", "gate")
	b.Call(prog.SysRead, prog.Int(fd), b.Zero(8).Arg(), prog.Int(1)).Full()
	b.Call(prog.SysClose, prog.Int(fd))
}
