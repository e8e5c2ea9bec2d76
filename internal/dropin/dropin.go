//go:build linux

// Package dropin translates bubblewrap's options into values of packages nsexec and mounts, as far as that is possible
// with the options alone. Its callers add what needs descriptors or facts about the system.
//
// It imports packages bwrap, mounts, nsexec and sandbox, parses nothing and starts nothing. Nothing here allocates:
// package prerun calls it before the Go runtime starts.
package dropin

import (
	"io/fs"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
)

// Configure sets what cfg asks for in c, but for its mounts and its environment.
// root says that the caller is; cgroups, that the system has cgroup namespaces.
func Configure(c *nsexec.Cmd, cfg *bwrap.Config, root, cgroups bool) {
	o := sandbox.Of(c)
	c.Path, c.Args = cfg.Command[0], cfg.Command
	o.Bubblewrap, o.Inherit = true, true
	c.Dir = cfg.Chdir.Value
	c.Share = share(cfg, cgroups)
	o.AsPID1 = cfg.AsPID1
	c.Background = !cfg.DieWithParent && !cfg.KillOnExit
	c.NewSession, o.SameSession = cfg.NewSession, true
	o.HoldSignals = !cfg.ForwardSignals
	o.LoopbackOptional = cfg.AllowLoopbackFailure
	o.NoUserNamespaces, o.AssertNoUserNamespaces = cfg.DisableUserns, cfg.AssertUsernsDisabled
	c.Capabilities = nsexec.Capabilities(cfg.Caps)
	o.KeepCapabilities = root && !cfg.CapsGiven
	o.LockFiles = cfg.LockFiles
	o.Reaper = cfg.SyncFD.Set
	o.MapLater = cfg.UsernsBlockFD.Set
}

func share(cfg *bwrap.Config, cgroups bool) nsexec.Namespace {
	s := nsexec.All
	for _, u := range [...]struct {
		ns    nsexec.Namespace
		isNew bool
	}{
		{nsexec.User, cfg.UnshareUser}, {nsexec.IPC, cfg.UnshareIPC}, {nsexec.PID, cfg.UnsharePID},
		{nsexec.Net, cfg.UnshareNet}, {nsexec.UTS, cfg.UnshareUTS},
		{nsexec.Cgroup, cfg.UnshareCgroup || cfg.UnshareCgroupTry && cgroups},
	} {
		if u.isNew {
			s &^= u.ns
		}
	}
	return s
}

// Mount makes m the step op, as far as it needs neither descriptors nor the
// system: the kind, the paths as they were given, modes and sizes.
func Mount(m *mounts.Mount, op *bwrap.SetupOp, newProc, plainShm bool) {
	*m = mounts.Mount{Kind: kinds[op.Kind], Target: op.Dest, Optional: op.Try, Size: op.Size, ParentPerm: fs.FileMode(op.ParentMode())}
	switch op.Kind {
	case bwrap.OpBind, bwrap.OpROBind, bwrap.OpDevBind:
		m.Source = op.Source
		m.ReadOnly, m.Devices = op.Kind == bwrap.OpROBind, op.Kind == bwrap.OpDevBind
	case bwrap.OpROBindFD, bwrap.OpROBindData:
		m.ReadOnly = true
	case bwrap.OpRemountRO:
		m.ReadOnly = true
	case bwrap.OpProc:
		if !newProc {
			m.Source = "/proc"
		}
	case bwrap.OpDev:
		if plainShm {
			m.Perm = 0o755
		}
	case bwrap.OpSymlink:
		m.Source = op.Source
	case bwrap.OpChmod:
		m.MustExist, m.HasPerm = true, true
	case bwrap.OpFile:
		m.Perm = 0o666
	case bwrap.OpOverlay:
		m.Upper, m.Work, m.Lower = op.Source, op.WorkDir, op.Layers
	case bwrap.OpTmpOverlay:
		m.Lower, m.Temporary = op.Layers, true
	case bwrap.OpROOverlay:
		m.Lower, m.ReadOnly = op.Layers, true
	}
	m.Hide = op.Hide
	if op.HasPerms {
		m.Perm, m.HasPerm = fileMode(op.Perms), true
	}
}

var kinds = [...]mounts.Kind{
	bwrap.OpBind: mounts.KindBind, bwrap.OpROBind: mounts.KindBind, bwrap.OpDevBind: mounts.KindBind,
	bwrap.OpBindFD: mounts.KindBind, bwrap.OpROBindFD: mounts.KindBind, bwrap.OpRemountRO: mounts.KindRemount,
	bwrap.OpOverlay: mounts.KindOverlay, bwrap.OpTmpOverlay: mounts.KindOverlay, bwrap.OpROOverlay: mounts.KindOverlay,
	bwrap.OpProc: mounts.KindProc, bwrap.OpDev: mounts.KindDev, bwrap.OpTmpfs: mounts.KindTmpfs,
	bwrap.OpMqueue: mounts.KindMqueue, bwrap.OpDir: mounts.KindDir, bwrap.OpFile: mounts.KindFile,
	bwrap.OpBindData: mounts.KindData, bwrap.OpROBindData: mounts.KindData, bwrap.OpSymlink: mounts.KindSymlink,
	bwrap.OpChmod: mounts.KindChmod, bwrap.OpHostname: 0,
}

// fileMode is a mode as chmod(2) takes it as one of Go's.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}
