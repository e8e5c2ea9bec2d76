//go:build linux

package mountprog

import (
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
)

// The root of a mount namespace has no parent. Usually that is an empty file system with the host's root mounted over
// it, but where the host runs from an initramfs it is the host's root itself. The kernel does not replace that one
// (pivot_root(2)), so it stays, and the sandbox's root covers it, as a host's root does everywhere else. Nothing but
// an unmount uncovers it: ".." stops at a mount that covers the root of the namespace, setns(2) enters the topmost
// one, and a user namespace of the command cannot unmount what was there before. A command that has CAP_SYS_ADMIN where
// the mounts belong to can, so it gets an error (Options.Admin).

// replace makes base, which covers the root of the namespace and is the current directory, that root, with what it
// covers at h. If the kernel refuses that, it leaves both where they are, and puts a copy of the mounts below host at
// h: base must not cover them. host is the copy then.
func (c *compiler) replace(host prog.Slot) {
	pivot := c.Call(prog.SysPivotRoot, c.String("."), c.String("h"))
	if c.o.Admin {
		return
	}
	replaced := pivot.Tolerate(syscall.EINVAL).OnSuccess()
	dot, root, h := c.String("."), c.String("/"), c.String("/h")
	c.Call(prog.SysChroot, dot)
	c.Call(prog.SysMount, prog.Null, root, prog.Null, prog.Int(msUnbindable), prog.Null) // no copy has it
	c.Call(prog.SysFchdir, host.Arg())
	c.Call(prog.SysMount, dot, h, prog.Null, prog.Int(msBind|msRec), prog.Null)
	c.Call(prog.SysMount, prog.Null, root, prog.Null, prog.Int(msPrivate), prog.Null)
	c.Call(prog.SysClose, host.Arg())
	c.Call(prog.SysOpenat, prog.AtCwd, h, c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(host)
	// What covers another directory than the root of the namespace can be left through "..", which stops at the
	// process's root only; so that must be elsewhere meanwhile.
	c.Step("prepare", "/..")
	c.Call(prog.SysChroot, c.String("/r"))
	above := c.Slot()
	c.Call(prog.SysOpenat, c.base.Arg(), c.String(".."), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(above)
	c.Call(prog.SameMnt, above.Arg(), c.base.Arg())
	c.Close(above)
	c.Step("prepare", "/")
	c.Here(replaced)
}
