//go:build linux

package nsexec

import (
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// allowPing adds what lets the command's group make ICMP datagram sockets (icmp(7)) in its own network namespace, where
// nobody may at first: ping(8) has no other way without capabilities. The sandbox works without it too, so that no error
// is one.
func (c *Cmd) allowPing(b *prog.Builder) {
	if c.Share&Net != 0 || c.opt.Join.Net != nil || c.opt.Bubblewrap {
		return
	}
	if s := c.opt.Supervisor; s != nil && len(s.Links) > 0 {
		return // rules decide about this network, and have no form for ICMP
	}
	gid := inside(c.GIDMap, uint32(os.Getegid()))
	if c.Credential != nil {
		gid = c.Credential.GID
	}
	group := itoa(int64(gid))
	text := b.Text(group + " " + group)
	f := b.Slot()
	b.Step("ping", "")
	opened := b.Call(prog.SysOpenat, prog.AtCwd, b.String("/proc/sys/net/ipv4/ping_group_range"), b.Open(prog.WriteOnly|prog.CloseOnExec), prog.Int(0)).To(f)
	none := opened.TolerateAny().OnTolerated()
	b.Call(prog.SysWrite, f.Arg(), text.Arg(), text.Len()).TolerateAny()
	b.Close(f)
	b.Here(none)
}
