package plan

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

func (b *building) base() mounts.Plan {
	switch {
	case b.policy.Root:
		return append(slices.Clone(b.System), mounts.Proc("/proc"), mounts.Dev("/dev"), mounts.Tmpfs("/tmp").WithPerm(0o777|fs.ModeSticky))
	case b.policy.Strict:
		return append(strict(b.System), b.currentSystem()...)
	}
	return append(Base(b.VarTmp, b.Run), b.currentSystem()...)
}

// currentSystem shows the directory in /run in which NixOS and Guix have the programs of PATH.
func (b *building) currentSystem() mounts.Plan {
	const at = "/run/current-system"
	if path, _ := lookup(b.Env, "PATH"); b.Run && strings.Contains(path, at+"/") {
		return mounts.Plan{mounts.ROBind(at, at).Try()}
	}
	return nil
}

// strict is an empty root with the host's programs, and three devices.
func strict(system mounts.Plan) mounts.Plan {
	p := append(mounts.Plan{mounts.Tmpfs("/")}, system...)
	p = append(p, mounts.Proc("/proc"), mounts.Tmpfs("/dev"))
	for _, dev := range [...]string{"/dev/null", "/dev/zero", "/dev/urandom"} {
		p = append(p, mounts.DevBind(dev, dev))
	}
	for _, link := range [...][2]string{{"/proc/self/fd", "/dev/fd"}, {"fd/0", "/dev/stdin"}, {"fd/1", "/dev/stdout"}, {"fd/2", "/dev/stderr"}} {
		p = append(p, mounts.Symlink(link[0], link[1]))
	}
	return append(p, mounts.Tmpfs("/tmp").WithPerm(0o777|fs.ModeSticky))
}

// closeRoot makes the empty root read-only when it has all mount points, and drops mounts that hide what is not shown.
func (b *building) closeRoot() {
	for i, m := range slices.Backward(b.mounts) {
		if m.Kind == mounts.KindBlock && !b.shows(m.Target, func(other int) bool { return other == 0 }) {
			b.drop(i)
		}
	}
	b.at = HostLayer
	b.insert(len(b.mounts), mounts.Remount("/"))
}

// shows reports whether a mount that hides nothing is at, above or below a path. It does not look at those mounts that
// except reports.
func (b *building) shows(path string, except func(i int) bool) bool {
	for i := range b.mounts {
		m := &b.mounts[i]
		if m.Covers() && m.Kind != mounts.KindBlock && !Hole(m) && !except(i) && (paths.Inside(path, m.Target) || paths.Inside(m.Target, path)) {
			return true
		}
	}
	return false
}

const resolvPath = "/etc/resolv.conf"

// strictNetwork shows resolv.conf at its usual place.
func (b *building) strictNetwork() (p mounts.Plan) {
	if b.policy.HostNetwork && b.policy.Root {
		return nil // System has it
	}
	if b.policy.HostNetwork && b.ResolvConf != "" {
		return mounts.Plan{mounts.ROBind(b.ResolvConf, resolvPath)}
	}
	for _, m := range b.Network {
		p = append(p, mounts.Data(resolvPath, m.Data).RO().WithPerm(0o644))
	}
	return p
}
