//go:build linux

package nsexec

import (
	"io"
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// Explain prints what Start would do: the system calls of both Programs. It does not run them.
func (c *Cmd) Explain(w io.Writer) error {
	if c.Err != nil {
		return c.Err
	}
	p := c.beginning()
	n := 3 + len(c.ExtraFiles) + len(c.Layers)
	if c.opt.Masks != nil {
		n++
	}
	if c.opt.Supervisor != nil {
		n++
	}
	b := prog.New(prog.Native())
	b.SetNFds(n + 1)
	fds := make([]int, n)
	for i, f := range c.ExtraFiles {
		if f == nil {
			fds[3+i] = -1
		}
	}
	if c.opt.Inherit {
		fds = nil
	} else {
		b.Call(prog.Install, prog.Int(n))
	}
	if p.joins() {
		p.enter(b, prog.Int(0), func(f *os.File) prog.Arg { return prog.Int(f.Fd()) })
	}
	p.namespaces(b)
	if err := c.setup(b, p, fds, n, p.mountsFirst(), nil); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "clone of "+os.Args[0]+": "+names(p.cloneFlags())+"\n"); err != nil {
		return err
	}
	return b.Program().Format(w)
}
