//go:build linux

package mountprog

import (
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// If a Plan begins with the host's root, the copy of the host's mounts in the new mount namespace becomes the sandbox's
// root. That saves a second copy, pivot_root(2), and an unmount, whose grace period is the largest cost of setting up
// mounts. It needs a new user namespace, which ensures that nothing is above the root (Options.UserNamespace).

// inPlace reports whether p can be done in place. Sources are opened before the root becomes read-only, and devices
// before it becomes nodev; layers of an overlay, and what Block needs, cannot be prepared like that.
func inPlace(p mounts.Plan) bool {
	if len(p) == 0 || p[0].Kind != mounts.KindBind || p[0].Source != "/" || relative(p[0].Target) != "" || p[0].NonRecursive {
		return false
	}
	binds := 0
	for i := range p[1:] {
		switch m := &p[1+i]; m.Kind {
		case mounts.KindOverlay, mounts.KindBlock, mounts.KindData, mounts.KindLayer:
			return false
		case mounts.KindBind:
			binds++
		}
		if isMount(&p[1+i]) && relative(p[1+i].Target) == "" {
			return false
		}
	}
	return binds <= manySources
}

func (c *compiler) inPlace(p mounts.Plan) error {
	binds, devs := 0, 0
	for i := range p[1:] {
		switch p[1+i].Kind {
		case mounts.KindBind:
			binds++
		case mounts.KindDev:
			devs++
		}
	}
	if binds > 0 {
		c.sources, c.opened = c.Slots(binds), binds
	}
	if devs > 0 {
		c.devices, c.devicesOpen = c.Slots(devs*len(prog.HostDevices)), true
	}
	source, device := c.sources, c.devices
	for i := range p[1:] {
		c.Mount(1 + i)
		switch m := &p[1+i]; m.Kind {
		case mounts.KindBind:
			c.openSource(m, source)
			source++
		case mounts.KindDev:
			for i := range prog.HostDevices {
				c.StepIn("dev", m.Target, prog.HostDevices[i].Name)
				c.openDevice(&prog.HostDevices[i], device)
				device++
			}
			if m.Source != "" {
				c.consoleFd = c.Slot()
				c.openConsole(m, c.consoleFd)
			}
		}
	}
	c.Mount(0)
	c.Step("bind", "/")
	c.root = c.Slot()
	c.Call(prog.SysOpenat, prog.AtCwd, c.String("/"), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(c.root)
	c.setattr(c.root, atRecursive, attrs(&p[0]))
	c.attached = true
	if err := c.mountAll(p, 1); err != nil {
		return err
	}
	c.letGo()
	c.Step("pivot", "/")
	c.Call(prog.SysChdir, c.String("/"))
	c.Close(c.root)
	return nil
}
