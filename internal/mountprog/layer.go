//go:build linux

package mountprog

import (
	"errors"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

var errLayer = errors.New("there is no such descriptor of a mount")

// layers attaches the layers of p and closes their descriptors, which the command must not have.
func (c *compiler) layers(p mounts.Plan) error {
	private := c.o.UserNamespace // the kernel has seen to it
	for i := range p {
		m := &p[i]
		if m.Kind != mounts.KindLayer {
			continue
		}
		if m.Layer < 0 || m.Layer >= c.o.Layers {
			return &mounts.Error{Op: m.Kind.String(), Path: m.Target, Err: errLayer}
		}
		c.Mount(i)
		c.Step(m.Kind.String(), m.Target)
		if !private {
			private = true
			c.Call(prog.SysMount, prog.Null, c.String("/"), prog.Null, prog.Int(msRec|msSlave), prog.Null)
		}
		at := c.Slot()
		c.Part(prog.PartTarget)
		how, size := c.How(prog.PathOnly|prog.CloseOnExec, 0, resolveNoSymlinks)
		c.Call(prog.SysOpenat2, prog.AtCwd, c.String(m.Target), how.Arg(), size).To(at)
		c.Part(prog.PartNone)
		fd := prog.Int(c.o.FirstLayer + m.Layer)
		c.Call(prog.SysMoveMount, fd, c.String(""), at.Arg(), c.String(""), prog.Int(moveFromEmpty|moveToEmpty))
		c.Close(at)
		c.Mount(-1)
	}
	for i := range c.o.Layers {
		c.Call(prog.SysClose, prog.Int(c.o.FirstLayer+i))
	}
	return nil
}
