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
	setKernel(b, "ping", "net/ipv4/ping_group_range", group+" "+group)
}

// allowPorts adds what lets root's command, which has no capability for it, listen on ports below 1024 in its own
// network namespace, as root does outside.
func (c *Cmd) allowPorts(b *prog.Builder) {
	if os.Geteuid() == 0 && (c.Credential == nil || c.Credential.UID == inside(c.UIDMap, 0)) && c.ownNetwork() {
		setKernel(b, "ports", "net/ipv4/ip_unprivileged_port_start", "0")
	}
}

// setKernel adds a setting of a namespace. The sandbox works without it too, so errors are ignored.
func setKernel(b *prog.Builder, step, name, value string) {
	text := b.Text(value)
	f := b.Slot()
	b.Step(step, "")
	path := b.String("/proc/sys/" + name)
	opened := b.Call(prog.SysOpenat, prog.AtCwd, path, b.Open(prog.WriteOnly|prog.CloseOnExec), prog.Int(0)).To(f)
	none := opened.TolerateAny().OnTolerated()
	b.Call(prog.SysWrite, f.Arg(), text.Arg(), text.Len()).TolerateAny()
	b.Close(f)
	b.Here(none)
}
