//go:build linux

package nsexec

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// A second user namespace inside the first. The mounts belong to the first, so that not even a command with all
// capabilities can change them. And the first can have a limit of user namespaces that the command cannot lift.

// nests reports whether the command runs in a second user namespace.
func (c *Cmd) nests() bool {
	if c.Share&User != 0 {
		return false
	}
	if c.opt.NoUserNamespaces {
		return true
	}
	// With --dev bubblewrap always makes one, because it has to mount devpts as id 0. A command without
	// capabilities cannot tell the difference.
	if !c.opt.Bubblewrap || c.opt.KeepCapabilities || c.Capabilities == 0 || c.insideUID() == 0 {
		return false
	}
	return slices.ContainsFunc(c.Mounts, func(m mounts.Mount) bool { return m.Kind == mounts.KindDev })
}

// insideUID is the caller's user id in the sandbox.
func (c *Cmd) insideUID() uint32 { return inside(c.UIDMap, uint32(os.Geteuid())) }

// inside is the id inside to which a map maps an id.
func inside(m []IDMap, id uint32) uint32 {
	for _, r := range m {
		if id >= r.Outside && id-r.Outside < r.Count {
			return r.Inside + (id - r.Outside)
		}
	}
	return id
}

// prepareNested adds what has to be done while the host's /proc can be reached, and returns a descriptor of it.
func (c *Cmd) prepareNested(b *prog.Builder) prog.Slot {
	if !c.nests() {
		return 0
	}
	b.Step("nested user namespace", "/proc")
	// A mount of its own, which stays when the other changes, with everything mounted below it: those mounts belong
	// to another user namespace, and the kernel clones no tree without them.
	dir := b.Slot()
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	clone := b.Call(prog.SysOpenTree, prog.AtCwd, b.String("/proc"), prog.Int(flags)).To(dir).
		Tolerate(syscall.ENOSYS, syscall.EPERM, syscall.EACCES).OnSuccess()
	b.Call(prog.SysOpenat, prog.AtCwd, b.String("/proc"), b.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(dir)
	b.Here(clone)
	if c.opt.NoUserNamespaces {
		const limit = "/proc/sys/user/max_user_namespaces"
		b.Step("nested user namespace", limit)
		f := b.Slot()
		b.Call(prog.SysOpenat, prog.AtCwd, b.String(limit), b.Open(prog.WriteOnly|prog.CloseOnExec), prog.Int(0)).To(f)
		b.Call(prog.SysWrite, f.Arg(), b.Data([]byte("1")).Arg(), prog.Int(1)).Full()
		b.Close(f)
	}
	return dir
}

// nest adds the second user namespace, or enters one.
func (c *Cmd) nest(b *prog.Builder, procDir prog.Slot) {
	if f := c.opt.Join.UserAfter; f != nil {
		b.Step("join", "user, after")
		b.Call(prog.SysSetns, prog.Int(f.Fd()), prog.Int(unix.CLONE_NEWUSER))
		b.Call(prog.SysClose, prog.Int(f.Fd()))
		return
	}
	if !c.nests() {
		return
	}
	uid, gid := c.insideUID(), inside(c.GIDMap, uint32(os.Getegid()))
	b.Step("nested user namespace", "")
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER))
	b.WriteIDMaps(procDir, b.OneID(uid, uid), b.OneID(gid, gid))
	b.Close(procDir)
	b.Step("capabilities", "")
	dropBounding(b, c.Capabilities)
	if c.opt.NoUserNamespaces {
		assertNoUserNamespaces(b)
	}
}

// assertNoUserNamespaces fails if a user namespace can be made.
func assertNoUserNamespaces(b *prog.Builder) {
	b.Step("no user namespaces", "")
	none := b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER)).TolerateAny().OnTolerated()
	b.Fail(syscall.EEXIST)
	b.Here(none)
}
