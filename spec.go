package nsrun

import (
	"context"
	"os"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Spec describes a sandbox. It can be copied, and used for any number of commands at once.
type Spec struct {
	// Mounts is the file system. Nil: an empty one; see DefaultMounts.
	Mounts mounts.Plan

	// Share are the namespaces shared with the host. Zero: none. Where Mounts shows the host's /sys/fs/cgroup,
	// programs that look for their cgroup in there (Java) need nsexec.Cgroup.
	Share nsexec.Namespace

	// AbstractSockets leaves abstract unix sockets of the host (unix(7)) reachable if Share has the network: the
	// kernel can close all of them, or none. False: they are closed, which needs Linux 6.12 with Landlock.
	AbstractSockets bool

	// Env is the environment, "key=value"; of several values for a key the last one counts. Nil: SafeEnv of the
	// caller's.
	Env []string

	// Dir is the working directory, a path in the sandbox. Empty: the caller's, if the sandbox has that path, else
	// "/".
	Dir string

	// Hostname is the host's name in the sandbox. Empty: the real one.
	Hostname string

	// UIDMap and GIDMap say which ids exist in the sandbox (user_namespaces(7)). Nil: the caller's own, and for
	// root all that it has.
	UIDMap, GIDMap []nsexec.IDMap

	// Capabilities of the command in its user namespace (capabilities(7)). Zero: none.
	Capabilities nsexec.Capabilities

	// Seccomp are filters of the commands' system calls (seccomp(2)). Nil: the default one, see
	// nsexec.FilterOptions. Empty but not nil: none.
	Seccomp []nsexec.Filter

	// UserNamespaces, CgroupNamespaces and Openat2 make the default filter allow these, see nsexec.FilterOptions.
	// False: it refuses them.
	UserNamespaces, CgroupNamespaces, Openat2 bool

	// NoSetGroupID makes the default filter refuse set-group-id bits, see nsexec.FilterOptions. False: a
	// command can set them.
	NoSetGroupID bool

	// ChangeRoot makes the default filter allow chroot(2), see nsexec.FilterOptions. False: it refuses it.
	ChangeRoot bool

	// Rlimits are resource limits (setrlimit(2)). Nil: the caller's. If RLIMIT_CORE is not among them, there are no
	// core dumps.
	Rlimits []nsexec.Rlimit

	// NewSession gives commands no terminal. False: the caller's, if it has one.
	NewSession bool
}

// Command returns a command in such a sandbox, not started yet.
func (s Spec) Command(name string, arg ...string) *nsexec.Cmd {
	return s.apply(nsexec.Command(name, arg...))
}

// CommandContext is like Command, but ends the sandbox if ctx ends before the command does.
func (s Spec) CommandContext(ctx context.Context, name string, arg ...string) *nsexec.Cmd {
	return s.apply(nsexec.CommandContext(ctx, name, arg...))
}

func (s Spec) apply(c *nsexec.Cmd) *nsexec.Cmd {
	c.Mounts = s.Mounts
	c.Share = s.Share
	c.HideAbstract = s.Share&nsexec.Net != 0 && !s.AbstractSockets
	c.Env = s.Env
	if c.Env == nil {
		c.Env = SafeEnv(os.Environ())
	}
	c.Dir = s.Dir
	c.Hostname = s.Hostname
	c.UIDMap, c.GIDMap = s.UIDMap, s.GIDMap
	c.Capabilities = s.Capabilities
	c.Seccomp = s.Seccomp
	if c.Seccomp == nil {
		c.Seccomp = []nsexec.Filter{s.filter()}
	}
	c.Rlimits = withoutCore(s.Rlimits)
	c.NewSession = s.NewSession
	return c
}

// filter is the default filter, as s says.
func (s *Spec) filter() nsexec.Filter {
	return nsexec.FilterOptions{
		UIDMap: s.UIDMap, GIDMap: s.GIDMap, UserNamespaces: s.UserNamespaces, CgroupNamespaces: s.CgroupNamespaces, Openat2: s.Openat2,
		NoSetGroupID: s.NoSetGroupID, ChangeRoot: s.ChangeRoot,
	}.Filter()
}
