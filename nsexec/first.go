//go:build linux

package nsexec

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sandbox"
)

// The first Program: namespaces.

// profile is everything that the first Program depends on: sandboxes with equal profiles can begin with the same one.
type profile struct {
	flags    uint64   // of clone3(2), without CLONE_NEWNS
	uid, gid string   // id maps
	self     bool     // the child writes them
	one      [2]IDMap // user and group id maps of one id, in place of uid and gid
	bounding Capabilities
	who      string // of a launcher: its credentials

	inherit  bool // descriptors stay as they are
	keyring  bool // the session key ring is shared
	loopback bool // it may fail
	mounts   bool // a sandbox in advance has its mount namespace, too; see prepareMounts
	cgroup   *os.File
}

// beginning is a profile, and what else a first Program can need for one command only.
type beginning struct {
	profile
	created func(pid int) error
	surplus Capabilities // what is still to be removed from the bounding set
	later   bool         // created has the maps written
	tty     bool         // there is a group 5
	join    sandbox.Join
}

// common reports whether the sandbox can be made before it is wanted.
func (p *beginning) common() bool { return p.created == nil && !p.later && !p.joins() }

func (c *Cmd) beginning() *beginning {
	p := beginning{
		profile: profile{
			flags: (All &^ c.Share).flags(), bounding: c.Capabilities,
			inherit: c.opt.Inherit, keyring: c.opt.Bubblewrap, loopback: c.opt.LoopbackOptional, cgroup: c.Cgroup,
		},
		created: c.opt.Created, later: c.opt.MapLater, join: c.opt.Join,
	}
	p.join.UserAfter = nil // which the second Program enters
	if c.keepsBounding(os.Geteuid() == 0) {
		p.bounding = ^Capabilities(0)
	}
	if !reexec.InProcess {
		p.who = credentials()
	}
	if p.flags&unix.CLONE_NEWUSER != 0 && !p.later {
		m := mapIDs(c.UIDMap, c.GIDMap)
		p.uid, p.gid, p.self = text(m.uid), text(m.gid), m.self
		p.tty = slices.ContainsFunc(m.gid, func(m IDMap) bool { return m.Inside <= 5 && 5-m.Inside < m.Count })
	}
	p.mounts = c.mountsAhead(&p)
	return &p
}

// keepsBounding reports whether nothing is removed from the bounding set.
func (c *Cmd) keepsBounding(root bool) bool {
	if c.opt.Bubblewrap {
		return root && c.Share&User != 0 && c.opt.Join.User == nil
	}
	return c.opt.KeepCapabilities
}

// waits reports whether the child, when it has all its namespaces, waits until something was done for it: a privileged
// process writes the id maps, or the caller wants to know about the namespaces.
func (p *beginning) waits() bool {
	return p.flags&unix.CLONE_NEWUSER != 0 && !p.self || p.created != nil
}

// joins reports whether there are namespaces to enter.
func (p *beginning) joins() bool { return p.join != sandbox.Join{} }

// cloneFlags are those for making the process itself. If the child is allowed to, it makes the other namespaces on its
// own, so that many clones of one launcher do not wait for each other.
func (p *beginning) cloneFlags() uint64 {
	flags := p.flags
	if p.cgroup != nil {
		// If clone made it, its root would be the cgroup of the process that clones.
		flags &^= unix.CLONE_NEWCGROUP
	}
	switch {
	case p.created != nil:
		return flags | unix.CLONE_NEWNS
	case p.waits():
		return flags
	}
	return flags & (unix.CLONE_NEWUSER | unix.CLONE_NEWPID)
}

// into is the flag that goes with Cmd.Cgroup, for the first clone.
func (p *beginning) into() uint64 {
	if p.cgroup == nil {
		return 0
	}
	return unix.CLONE_INTO_CGROUP
}

// withCgroup adds the descriptor that reexec.Spawn needs for that flag.
func (p *beginning) withCgroup(fds []int) []int {
	if p.cgroup == nil {
		return fds
	}
	return append(fds, int(p.cgroup.Fd()))
}

// mountsFirst reports whether the first Program makes the mount namespace.
func (p *beginning) mountsFirst() bool { return p.created != nil }

// enter adds the steps that join namespaces. User and PID namespaces apply to new processes only, so the Program
// continues in a new process, with all other new namespaces. If a PID namespace is to be made below a joined one, it
// continues in one more process, because only a process in the joined one can make it.
func (p *beginning) enter(b *prog.Builder, sock prog.Arg, number func(*os.File) prog.Arg) {
	for _, j := range [...]struct {
		f    *os.File
		name string
		flag uint64
	}{
		{p.join.User, "user", unix.CLONE_NEWUSER}, {p.join.Net, "net", unix.CLONE_NEWNET}, {p.join.PID, "pid", unix.CLONE_NEWPID},
	} {
		if j.f != nil {
			b.Step("join", j.name)
			b.Call(prog.SysSetns, number(j.f), prog.Int(j.flag))
		}
	}
	stepClone(b, p.cloneFlags())
	if p.twice() {
		b.Call(prog.Clone, prog.Int(0))
	}
	b.Call(prog.Clone, prog.Int(p.cloneFlags()))
	if p.twice() {
		// Only the kernel can translate its process id for the reader.
		b.Call(prog.SysWrite, sock, b.Zero(8).Arg(), prog.Int(1)).Tolerate(syscall.EPIPE)
	}
	if p.join.User == nil {
		return
	}
	// From here on all ids and capabilities are those of this namespace.
	if p.join.SetUID {
		b.Step("uid", itoa(int64(p.join.UID)))
		b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_KEEPCAPS), prog.Int(1))
		b.Call(prog.SysSetresuid, prog.Int(p.join.UID), prog.Int(p.join.UID), prog.Int(p.join.UID))
		raiseAll(b)
	}
	if p.join.SetGID {
		b.Step("gid", itoa(int64(p.join.GID)))
		b.Call(prog.SysSetresgid, prog.Int(p.join.GID), prog.Int(p.join.GID), prog.Int(p.join.GID))
	}
	raiseAll(b)
}

// raiseAll makes all permitted capabilities effective; in a namespace that was joined, all are permitted.
func raiseAll(b *prog.Builder) {
	b.Step("capabilities", "")
	all := uint64(1<<32 - 1)
	b.Call(prog.SysCapset, b.Words(unix.LINUX_CAPABILITY_VERSION_3).Arg(), b.Words(all|all<<32, all<<32, all).Arg())
}

// twice reports whether two processes are made one after the other.
func (p *beginning) twice() bool { return p.join.PID != nil && p.cloneFlags()&unix.CLONE_NEWPID != 0 }

// namespaces adds the rest of the first Program.
func (p *beginning) namespaces(b *prog.Builder) {
	b.Step("start", "")
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	if p.self && p.flags&unix.CLONE_NEWUSER != 0 {
		procDir := b.OpenProc()
		if p.uid != "" {
			b.WriteIDMaps(procDir, b.Text(p.uid), b.Text(p.gid))
		} else {
			u, g := p.one[0], p.one[1]
			b.WriteIDMaps(procDir, b.OneID(u.Inside, u.Outside), b.OneID(g.Inside, g.Outside))
		}
		b.Close(procDir)
	}
	if rest := p.flags &^ (p.cloneFlags() | unix.CLONE_NEWUSER | unix.CLONE_NEWPID); rest != 0 {
		stepClone(b, rest)
		b.Call(prog.SysUnshare, prog.Int(rest))
	}
	if !p.keyring {
		// A key ring of its own: the caller's session keys stay outside. Missing support for keys and full
		// quotas are not errors: nsrun run's filter refuses keyctl altogether.
		b.Call(prog.SysKeyctl, prog.Int(unix.KEYCTL_JOIN_SESSION_KEYRING), prog.Null).
			Tolerate(syscall.ENOSYS, syscall.EPERM, syscall.EDQUOT, syscall.EACCES)
	}
	if p.flags&unix.CLONE_NEWNET != 0 {
		loopback(b, p.loopback)
	}
	b.Step("capabilities", "")
	dropBounding(b, p.bounding)
}

// stepClone begins the step that makes namespaces.
func stepClone(b *prog.Builder, flags uint64) {
	if !b.Fixed() {
		b.Step("clone", names(flags))
	}
}

func dropBounding(b *prog.Builder, keep Capabilities) {
	var last [maxCaps]prog.Label
	for n := range maxCaps {
		if keep&(1<<n) == 0 {
			// EINVAL: there are no more capabilities. EPERM: without CAP_SETPCAP none can be dropped; that
			// does no harm, because no_new_privs keeps execve from granting any.
			last[n] = b.Call(prog.SysPrctl, prog.Int(unix.PR_CAPBSET_DROP), prog.Int(n)).
				Tolerate(syscall.EINVAL, syscall.EPERM).OnTolerated()
		}
	}
	b.Here(last[:]...)
}

// loopback brings lo up; the kernel then gives it its addresses (netdevice(7)).
func loopback(b *prog.Builder, optional bool) {
	b.Step("loopback", "lo")
	ifreq := make([]byte, 40)
	copy(ifreq, "lo")
	ifreq[16] = unix.IFF_UP
	s := b.Slot()
	open := b.Call(prog.SysSocket, prog.Int(unix.AF_INET), prog.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), prog.Int(0)).To(s)
	up := b.Call(prog.SysIoctl, s.Arg(), prog.Int(unix.SIOCSIFFLAGS), b.Data(ifreq).Arg())
	if optional {
		open.TolerateAny()
		up.TolerateAny()
	} else {
		// A seccomp filter, which holds for the command too, or a kernel without IPv4: nobody can use it.
		open.Tolerate(syscall.EAFNOSUPPORT, syscall.EPERM, syscall.EACCES, syscall.ENOSYS)
	}
	b.Close(s)
	b.Here(open.OnTolerated())
}
