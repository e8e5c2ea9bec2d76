//go:build linux

package mountprog

import (
	"path"
	"strconv"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// The classic form: mount(2), which takes paths. /proc/self/fd/N names exactly what is open at N, which must be known
// when the Program is built; so a descriptor is moved to a fixed number first.

const noSource = prog.Slot(0xffff)

// mountOn is mount(2) on what at refers to; if from is a slot, what it refers to is the source.
func (c *compiler) mountOn(at prog.Slot, source, fstype string, flags uint64, data string, from prog.Slot) {
	c.Call(prog.SysDup3, at.Arg(), prog.Int(c.o.ScratchFd), prog.Int(openTreeCloexec))
	target := c.String(fdPath(c.o.ScratchFd))
	src := prog.Null
	switch {
	case from == noSource:
	case source == "":
		c.Call(prog.SysDup3, from.Arg(), prog.Int(c.o.ScratchFd+1), prog.Int(openTreeCloexec))
		src = c.String(fdPath(c.o.ScratchFd + 1))
	default:
		src = c.String(source)
	}
	typ, dat := prog.Null, prog.Null
	if fstype != "" {
		typ = c.String(fstype)
	}
	if data != "" {
		dat = c.String(data)
	}
	c.Call(prog.SysMount, src, target, typ, prog.Int(flags), dat)
	c.Call(prog.SysClose, prog.Int(c.o.ScratchFd))
	if from != noSource && source == "" {
		c.Call(prog.SysClose, prog.Int(c.o.ScratchFd+1))
	}
}

// fdPath is a path of what descriptor n refers to.
func fdPath(n int) string { return "/proc/self/fd/" + strconv.Itoa(n) }

// mountFlags translates flags of mount_setattr(2) to those of mount(2), which have the same numbers here.
func mountFlags(attrs uint64) uint64 {
	return attrs & (attrReadOnly | attrNoSuid | attrNoDev | attrNoExec)
}

// classicSource finds the mounts inside the source of a bind, whose flags must be set one by one.
func (c *compiler) classicSource(m *mounts.Mount, t *tree) error {
	source := m.Source
	if c.o.Resolve != nil {
		resolved, err := c.o.Resolve(source)
		if err != nil {
			t.below = []mounts.Info{{}} // opening it will say so
			return nil
		}
		source = resolved
	}
	t.below = mounts.Below(c.o.Infos, source)
	if m.NonRecursive {
		t.below = t.below[:1]
	}
	return nil
}

func (c *compiler) classicMount(t tree, at prog.Slot) {
	if t.fstype != "" {
		c.mountOn(at, t.source, t.fstype, mountFlags(t.flags), t.data, 0)
		return
	}
	rec := uint64(msRec)
	if len(t.below) == 1 {
		rec = 0
	}
	c.mountOn(at, "", "", msBind|rec, "", t.fd)
	c.Close(t.fd)
}

// classicAttach mounts t on under, which it closes, and returns a descriptor of the new mount's root. again opens under
// once more.
func (c *compiler) classicAttach(t tree, under prog.Slot, again func() prog.Slot) prog.Slot {
	c.classicMount(t, under)
	c.Close(under)
	top := again()
	c.classicFlags(t, top)
	return top
}

// classicMove mounts t in a hidden place and moves it onto under, which it closes, because a second look at a path of
// the sandbox could find something else. It returns a descriptor of the mount's root.
func (c *compiler) classicMove(t tree, under prog.Slot) prog.Slot {
	name := "m" + strconv.Itoa(c.hidden)
	c.hidden++
	like := prog.Int(-1)
	if t.fstype == "" {
		like = t.fd.Arg()
	}
	at := c.Slot()
	c.Call(prog.Target, c.base.Arg(), c.String(name), like, prog.Int(0o700)).To(at)
	top := c.classicAttach(t, at, func() prog.Slot {
		top := c.Slot()
		c.Call(prog.SysOpenat, c.base.Arg(), c.String(name), c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(top)
		return top
	})
	c.Call(prog.Mismatch, top.Arg(), under.Arg())
	c.mountOn(under, "", "", msMove, "", top)
	c.Close(under)
	return top
}

func (c *compiler) remember(t tree, target string) {
	if !c.o.Classic {
		return
	}
	if c.flags == nil {
		c.flags = make(map[string]uint64)
	}
	c.flags[target] = mountFlags(t.flags)
	for _, in := range t.below {
		c.flags[path.Join(target, in.Target)] = mountFlags(t.flags) | uint64(in.Flags)
	}
}

// classicFlags sets the flags of a bind and of all mounts in it, and makes them private; top is the new mount's root.
func (c *compiler) classicFlags(t tree, top prog.Slot) {
	if t.fstype != "" {
		return
	}
	c.mountOn(top, "", "", msRec|msPrivate, "", noSource)
	for i, in := range t.below {
		flags := msRemount | msBind | mountFlags(t.flags) | uint64(in.Flags)
		if i == 0 {
			c.mountOn(top, "", "", flags, "", noSource)
			continue
		}
		at := c.Slot()
		how, size := c.howIn(0)
		// The command never has more capabilities than the caller, so it cannot reach what is in a closed
		// directory either.
		closed := c.Call(prog.SysOpenat2, top.Arg(), c.String(in.Target), how, size).To(at).Tolerate(syscall.EACCES).OnTolerated()
		c.mountOn(at, "", "", flags, "", noSource)
		c.Close(at)
		c.Here(closed)
	}
}
