//go:build linux

package nsexec

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// ownDevices opens the command's descriptors of devices such as /dev/null once more, in the sandbox's /dev, which is
// read-only: that does not prevent writes to a device. Through a descriptor of the host's /dev root's command could
// change the device's mode and owner for the whole host (fchmod(2), fchown(2)). If a device cannot be opened, the
// command has the host's.
func (c *Cmd) ownDevices(b *prog.Builder, fds []int) {
	if os.Geteuid() != 0 || c.opt.OwnRoot || c.opt.Bubblewrap || c.opt.Inherit || !hasDev(c.Mounts) {
		return
	}
	for i, fd := range fds[:min(len(fds), 3+len(c.ExtraFiles))] {
		name, flags, ok := hostDevice(fd)
		if !ok {
			continue
		}
		b.Step("dev", name)
		own := b.Slot()
		refused := b.Call(prog.SysOpenat, prog.AtCwd, b.String(name), prog.Int(flags|unix.O_CLOEXEC), prog.Int(0)).To(own).
			TolerateAny().OnTolerated()
		b.Call(prog.SysDup3, own.Arg(), prog.Int(i), prog.Int(0))
		b.Call(prog.SysClose, own.Arg())
		b.Here(refused)
	}
}

// hasDev reports whether the sandbox's /dev is its own, and nothing is mounted over its devices.
func hasDev(plan mounts.Plan) bool {
	return slices.ContainsFunc(plan, func(m mounts.Mount) bool { return m.Kind == mounts.KindDev && m.Target == "/dev" }) &&
		!slices.ContainsFunc(plan, func(m mounts.Mount) bool {
			return slices.ContainsFunc(prog.HostDevices[:], func(d prog.HostDevice) bool { return m.Target == "/dev/"+d.Name })
		})
}

// hostDevice reports whether a descriptor is one of prog.HostDevices, and returns its path in the sandbox and flags.
func hostDevice(fd int) (name string, flags int, ok bool) {
	var st unix.Stat_t
	if fd < 0 || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", 0, false
	}
	for _, d := range prog.HostDevices {
		if st.Rdev != unix.Mkdev(d.Major, d.Minor) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		const kept = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK
		return "/dev/" + d.Name, flags & kept, err == nil && flags&unix.O_PATH == 0
	}
	return "", 0, false
}
