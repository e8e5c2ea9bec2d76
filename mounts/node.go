package mounts

import (
	"encoding/binary"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
)

// Steps that make something on the file system that is there, not a mount.

func (c *compiler) dir(m *Mount) {
	c.Step("dir", m.Target)
	if relative(m.Target) == "" {
		return
	}
	dir, leaf := c.parent(m)
	c.Call(prog.SysMkdirat, dir.Arg(), c.String(leaf), prog.Int(m.perm(0o755))).Tolerate(syscall.EEXIST)
	c.done(dir)
	// What exists must be a directory, or lead to one.
	at := c.Slot()
	how, size := c.howIn(3)
	c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(m.Target)), how, size).To(at)
	c.Close(at)
}

func (c *compiler) file(m *Mount) {
	c.Step("file", m.Target)
	dir, leaf := c.parent(m)
	f := c.Slot()
	// Nobody can make this wait with a FIFO.
	c.Call(prog.SysOpenat, dir.Arg(), c.String(leaf),
		c.Open(prog.WriteOnly|prog.Create|prog.Truncate|prog.NoFollow|prog.NonBlock|prog.CloseOnExec), prog.Int(m.perm(defaultFilePerm))).To(f)
	if len(m.Data) > 0 {
		c.Call(prog.SysWrite, f.Arg(), c.Data(m.Data).Arg(), prog.Int(len(m.Data))).Full()
	}
	c.Close(f)
	c.done(dir)
}

func (c *compiler) symlink(m *Mount) {
	c.Step("symlink", m.Target)
	dir, leaf := c.parent(m)
	l := c.String(leaf)
	made := c.Call(prog.SysSymlinkat, c.String(m.Source), dir.Arg(), l).Tolerate(syscall.EEXIST).OnSuccess()
	// A link with the same text is as good. EINVAL: not a link.
	text := c.Zero(len(m.Source) + 8)
	c.Call(prog.SysReadlinkat, dir.Arg(), l, text.Arg(), prog.Int(len(m.Source)+1)).Tolerate(syscall.EINVAL)
	same := c.sameText(text, m.Source)
	c.Fail(syscall.EEXIST)
	c.Here(same)
	c.Here(made)
	c.done(dir)
}

// sameText jumps where the bytes at p, padded with zeros, are s.
func (c *compiler) sameText(p prog.Ptr, s string) prog.Label {
	padded := append([]byte(s), 0, 0, 0, 0)
	var differ []prog.Label
	for i := 0; i <= len(s); i += 4 {
		equal := c.If(p+prog.Ptr(i), 0xffffffff, binary.LittleEndian.Uint32(padded[i:]))
		differ = append(differ, c.Jump())
		c.Here(equal)
	}
	same := c.Jump()
	c.Here(differ...)
	return same
}

func (c *compiler) chmod(m *Mount) {
	c.Step("chmod", m.Target)
	rel := relative(m.Target)
	if rel == "" {
		rel = "."
	}
	at := c.Slot()
	how, size := c.How(prog.NonBlock|prog.CloseOnExec, 0, resolveInRoot|resolveNoMagic)
	open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how.Arg(), size).To(at)
	var skip []prog.Label
	if m.Optional {
		skip = append(skip, open.Tolerate(enoent).OnTolerated())
	}
	c.Call(prog.SysFchmod, at.Arg(), prog.Int(m.perm(0)))
	c.Close(at)
	c.Here(skip...)
}
