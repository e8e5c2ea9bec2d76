//go:build linux

package mounts

import (
	"errors"

	"github.com/nsrun/nsrun/internal/prog"
)

var errLayer = errors.New("there is no such descriptor of a mount")

// Layer attaches a mount that the caller made and keeps a descriptor of (fsmount(2)),
// at dir, a directory of the host that holds no symbolic link: in the sandbox's own copy
// of the host's mounts only, and before anything else, so that sources of binds and
// layers of overlays can lie in it. n is the descriptor's index in nsexec.Cmd.Layers.
func Layer(n int, dir string) Mount { return Mount{Kind: KindLayer, Layer: n, Target: dir} }

// layers attaches what p has of them. Descriptors are closed: the command must not have
// them.
func (c *compiler) layers(p Plan) error {
	private := c.o.UserNamespace // the kernel has seen to it
	for i := range p {
		m := &p[i]
		if m.Kind != KindLayer {
			continue
		}
		if m.Layer < 0 || m.Layer >= c.o.Layers {
			return &Error{m.Kind.String(), m.Target, errLayer}
		}
		c.Mount(i)
		c.Step(m.Kind.String(), m.Target)
		if !private {
			private = true
			c.Call(prog.SysMount, prog.Null, c.String("/"), prog.Null, prog.Int(msRec|msSlave), prog.Null)
		}
		fd := prog.Int(c.o.FirstLayer + m.Layer)
		c.Call(prog.SysMoveMount, fd, c.String(""), prog.AtCwd, c.String(m.Target), prog.Int(moveFromEmpty))
		c.Mount(-1)
	}
	for i := range c.o.Layers {
		c.Call(prog.SysClose, prog.Int(c.o.FirstLayer+i))
	}
	return nil
}
