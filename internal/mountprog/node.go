//go:build linux

package mountprog

import (
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// Steps that change the existing file system, not mounts.

func (c *compiler) dir(m *mounts.Mount) {
	c.Step("dir", m.Target)
	if relative(m.Target) == "" {
		return
	}
	dir, leaf := c.parent(m)
	c.Part(prog.PartTarget)
	c.Call(prog.SysMkdirat, dir.Arg(), c.String(leaf), prog.Int(perm(m, 0o755))).Tolerate(syscall.EEXIST)
	c.done(dir)
	// An existing target must be a directory, or lead to one.
	c.Part(prog.PartNotDir)
	at := c.Slot()
	how, size := c.howIn(3)
	if c.o.Bubblewrap {
		how, size = c.howIn(4)
	}
	c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(m.Target)), how, size).To(at)
	c.Close(at)
}

func (c *compiler) file(m *mounts.Mount) {
	c.Step("file", m.Target)
	dir, leaf := c.parent(m)
	c.Part(prog.PartTarget)
	f := c.Slot()
	// O_NONBLOCK: a FIFO must not make this wait.
	c.Call(prog.SysOpenat, dir.Arg(), c.String(leaf),
		c.Open(prog.WriteOnly|prog.Create|prog.Truncate|prog.NoFollow|prog.NonBlock|prog.CloseOnExec), prog.Int(perm(m, defaultFilePerm))).To(f)
	c.Part(prog.PartContent)
	c.write(f, m.Data)
	c.Close(f)
	c.done(dir)
}

func (c *compiler) write(f prog.Slot, data []byte) {
	if len(data) > 0 {
		c.Call(prog.SysWrite, f.Arg(), c.Data(data).Arg(), prog.Int(len(data))).Full()
	}
}

func (c *compiler) symlink(m *mounts.Mount) {
	c.Step("symlink", m.Target)
	dir, leaf := c.parent(m)
	c.Part(prog.PartTarget)
	l, text := c.String(leaf), c.String(m.Source)
	made := c.Call(prog.SysSymlinkat, text, dir.Arg(), l).Tolerate(syscall.EEXIST).OnSuccess()
	// A link with the same text is accepted. EINVAL: not a link.
	c.Part(prog.PartMade)
	if c.linkText == 0 {
		c.linkText = c.Zero(pathMax)
	}
	n := c.Slot()
	c.Call(prog.SysReadlinkat, dir.Arg(), l, c.linkText.Arg(), prog.Int(pathMax)).To(n)
	c.Call(prog.Same, text, c.linkText.Arg(), n.Arg())
	c.Here(made)
	c.done(dir)
}

func (c *compiler) chmod(m *mounts.Mount) {
	c.Step("chmod", m.Target)
	rel := relative(m.Target)
	if rel == "" {
		rel = "."
	}
	name := c.String(rel)
	at := c.Slot()
	how, size := c.howIn(1) // and the mode of a link cannot be set
	c.Part(prog.PartTarget)
	open := c.Call(prog.SysOpenat2, c.root.Arg(), name, how, size).To(at)
	var skip prog.Label
	if m.Optional {
		skip = open.Tolerate(enoent).OnTolerated()
	}
	c.Part(prog.PartContent)
	mode := prog.Int(perm(m, 0))
	done := c.Call(prog.SysFchmodat2, at.Arg(), c.String(""), mode, prog.Int(atEmptyPath)).Tolerate(syscall.ENOSYS, syscall.EPERM, syscall.EACCES).OnSuccess()
	// Before Linux 6.6, and under some filters, O_PATH is not enough.
	c.Close(at)
	at = c.Slot()
	how2, size := c.How(prog.NonBlock|prog.NoFollow|prog.CloseOnExec, 0, resolveInRoot|resolveNoMagic)
	c.Call(prog.SysOpenat2, c.root.Arg(), name, how2.Arg(), size).To(at)
	c.Call(prog.SysFchmod, at.Arg(), mode)
	c.Here(done)
	c.Close(at)
	c.Here(skip)
}
