package nsexec

import (
	"io"
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// Explain prints what Start would do: the system calls of both Programs. Nothing
// is done.
func (c *Cmd) Explain(w io.Writer) error {
	if c.Err != nil {
		return c.Err
	}
	p := c.profile()
	n := 3 + len(c.ExtraFiles)
	b := prog.New(prog.Native())
	b.SetNFds(n + 1)
	b.SetFlags(p.cloneFlags())
	b.Call(prog.Install, prog.Int(n))
	p.namespaces(b)
	fds := make([]int, n)
	for i, f := range c.ExtraFiles {
		if f == nil {
			fds[3+i] = -1
		}
	}
	if err := c.setup(b, p, fds, false); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "clone of "+os.Args[0]+": "+names(p.cloneFlags())+"\n"); err != nil {
		return err
	}
	return b.Program().Format(w)
}
