//go:build linux

package nsexec

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
)

// Sandboxes whose root has an id that nobody has outside: Options.OwnRoot.

// becomeRoot adds what gives this process the ids of root in its user namespace, without which it could create no file.
// Layers are attached before: on the host, only root may be able to reach their places. After a change of ids the
// kernel hides the process's files in /proc from the process itself; no other process in the sandbox needs that
// protection yet.
func becomeRoot(b *prog.Builder) {
	b.Step("credential", "0:0")
	b.Call(prog.SysSetgroups, prog.Int(0), prog.Null)
	b.Call(prog.SysSetresgid, prog.Int(0), prog.Int(0), prog.Int(0))
	b.Call(prog.SysSetresuid, prog.Int(0), prog.Int(0), prog.Int(0))
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_DUMPABLE), prog.Int(1))
}

// givePipes gives the sandbox's root the standard descriptors that are root's pipes, so that it can open them by name
// (/dev/stderr). Root can still use them. Terminals and files keep their owners.
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

// outside is the outer id of id 0 in a map.
func outside(m []IDMap) uint32 {
	for _, r := range m {
		if r.Inside == 0 && r.Count > 0 {
			return r.Outside
		}
	}
	return uint32(os.Geteuid())
}
