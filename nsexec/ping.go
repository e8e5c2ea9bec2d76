//go:build linux

package nsexec

import (
	"os"

	"github.com/nsrun/nsrun/internal/prog"
)

// ownNetwork reports whether the command has a new network namespace, made by nsrun.
func (c *Cmd) ownNetwork() bool {
	return c.Share&Net == 0 && c.opt.Join.Net == nil && !c.opt.Bubblewrap
}

// allowPing adds what lets the command's group make ICMP datagram sockets (icmp(7)) in its own network namespace. By
// default no group may, and without capabilities ping(8) needs them.
func (c *Cmd) allowPing(b *prog.Builder) {
	if !c.ownNetwork() {
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
	setNetwork(b, "ping", "ping_group_range", group+" "+group)
}

// allowPorts adds what lets root's command, which has no capability for it, listen on ports below 1024 in its own
// network namespace, as root does outside.
func (c *Cmd) allowPorts(b *prog.Builder) {
	if os.Geteuid() == 0 && (c.Credential == nil || c.Credential.UID == inside(c.UIDMap, 0)) && c.ownNetwork() {
		setNetwork(b, "ports", "ip_unprivileged_port_start", "0")
	}
}

// setNetwork adds a setting of a network namespace. The sandbox works without it too, so errors are ignored.
func setNetwork(b *prog.Builder, step, name, value string) {
	text := b.Text(value)
	f := b.Slot()
	b.Step(step, "")
	path := b.String("/proc/sys/net/ipv4/" + name)
	opened := b.Call(prog.SysOpenat, prog.AtCwd, path, b.Open(prog.WriteOnly|prog.CloseOnExec), prog.Int(0)).To(f)
	none := opened.TolerateAny().OnTolerated()
	b.Call(prog.SysWrite, f.Arg(), text.Arg(), text.Len()).TolerateAny()
	b.Close(f)
	b.Here(none)
}
