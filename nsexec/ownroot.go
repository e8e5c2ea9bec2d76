//go:build linux

package nsexec

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
)

// Sandboxes whose root is nobody outside: Options.OwnRoot.

// becomeRoot adds what gives this process the ids of root in its user namespace, without which it could make no file. Layers are
// attached before: the host may let root alone come to where they belong. A change of ids makes the kernel hide the process's files
// in /proc from itself, and there is nobody in here yet to hide them from.
func becomeRoot(b *prog.Builder) {
	b.Step("credential", "0:0")
	b.Call(prog.SysSetgroups, prog.Int(0), prog.Null)
	b.Call(prog.SysSetresgid, prog.Int(0), prog.Int(0), prog.Int(0))
	b.Call(prog.SysSetresuid, prog.Int(0), prog.Int(0), prog.Int(0))
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(1))
}

// givePipes gives the sandbox's root the standard descriptors that are pipes of root's, so that it can open them by name
// (/dev/stderr). Root goes on using them whoever owns them. Terminals and files stay whose they are.
func (c *Cmd) givePipes(files []*os.File) {
	for _, f := range files {
		if f == nil {
			continue
		}
		fd := int(f.Fd())
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PIPEFS_MAGIC && unix.Fstat(fd, &st) == nil && st.Uid == 0 {
			_ = unix.Fchown(fd, int(outside(c.UIDMap)), int(outside(c.GIDMap)))
		}
	}
}

// outside is who 0 is by a map.
func outside(m []IDMap) uint32 {
	for _, r := range m {
		if r.Inside == 0 && r.Count > 0 {
			return r.Outside
		}
	}
	return uint32(os.Geteuid())
}
