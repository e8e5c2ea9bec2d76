package mounts

import (
	"path"

	"github.com/nsrun/nsrun/internal/prog"
)

// A Plan that begins with the host's root needs no other root: the copy of the
// host's mounts that the new mount namespace already is becomes the sandbox's.
// That saves a second copy, and with it pivot_root(2) and the one unmount, whose
// grace period is what setting up mounts costs most. Only in a new user namespace
// is it certain that nothing is above the root, see Options.UserNamespace.

// manySources is how many sources may be open at once.
const manySources = 100

// inPlace reports whether p can be done so. Sources are opened before the root
// becomes read-only, for they would be read-only too, and devices before it
// becomes nodev; layers of an overlay, and
// what Block needs, cannot be prepared like that.
func (p Plan) inPlace() bool {
	if len(p) == 0 || p[0].Kind != KindBind || p[0].Source != "/" || relative(p[0].Target) != "" || p[0].NonRecursive {
		return false
	}
	binds := 0
	for i := range p[1:] {
		switch m := &p[1+i]; m.Kind {
		case KindOverlay, KindBlock:
			return false
		case KindBind:
			binds++
			if m.Optional || relative(m.Target) == "" {
				return false
			}
		case KindTmpfs:
			if relative(m.Target) == "" {
				return false
			}
		}
	}
	return binds <= manySources
}

func (c *compiler) inPlace(p Plan) error {
	c.sources, c.devices = make(map[*Mount]source), make(map[deviceKey]prog.Slot)
	for i := range p[1:] {
		switch m := &p[1+i]; m.Kind {
		case KindBind:
			s, err := c.open(m)
			if err != nil {
				return err
			}
			c.sources[m] = s
		case KindDev:
			c.openDevices(m)
		}
	}
	c.Step("bind", "/")
	c.root = c.Slot()
	c.Call(prog.SysOpenat, prog.AtCwd, c.String("/"), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(c.root)
	c.setattr(c.root, atRecursive, p[0].attrs())
	c.attached = true
	if err := c.mountAll(p[1:]); err != nil {
		return err
	}
	c.Step("pivot", "/")
	c.Call(prog.SysChdir, c.String("/"))
	c.Close(c.root)
	return nil
}

// openDevices opens what dev needs.
func (c *compiler) openDevices(m *Mount) {
	for _, name := range deviceNames {
		c.Step("dev", path.Join(m.Target, name))
		c.devices[deviceKey{m, name}] = c.openDevice(name)
	}
}
