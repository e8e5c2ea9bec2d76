//go:build linux

package mountprog

import (
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// Sources of binds and layers are looked up before anything is made, so that nothing must be undone if one is missing.

// manySources is how many sources may be open at once.
const manySources = 100

// A tree is a detached mount: a descriptor, or in the classic form the arguments of the mount(2) that will make it.
type tree struct {
	fd      prog.Slot
	classic bool
	source  string // classic: what to mount …
	fstype  string // … "" for a bind
	flags   uint64
	data    string
	below   []mounts.Info // classic bind: the mounts in it
	made    prog.Ref      // a new file system: what mounts it …
	context prog.Slot     // … by this, which is open until then
}

// findSources looks up all sources of p, and opens them if they are not too many.
func (c *compiler) findSources(p mounts.Plan) {
	binds := 0
	for i := range p {
		if p[i].Kind == mounts.KindBind {
			binds++
		}
	}
	if binds <= manySources && !c.o.Classic {
		c.openAll(p, binds)
	}
	for i := range p {
		c.Mount(i)
		switch m := &p[i]; m.Kind {
		case mounts.KindBind:
			if c.opened == 0 && !m.Optional {
				c.find(m, m.Source)
			}
		case mounts.KindOverlay:
			for n := len(m.Lower) - 1; n >= 0; n-- {
				if n == len(m.Lower)-1 && m.Same != (mounts.FileID{}) {
					c.openLowest(m)
					continue
				}
				c.find(m, m.Lower[n])
			}
			if m.Upper != "" {
				c.find(m, m.Upper)
				c.find(m, m.Work)
			}
		}
	}
	c.Mount(-1)
}

// find fails where there is no such source.
func (c *compiler) find(m *mounts.Mount, source string) {
	c.Step(m.Kind.String(), source)
	c.Part(prog.PartSource)
	c.Call(prog.SysStatx, prog.AtCwd, c.String(source), prog.Int(dontSync), prog.Int(0), c.statx.Arg())
}

// openLowest opens the lowest lower directory of an overlay that must be a certain one.
func (c *compiler) openLowest(m *mounts.Mount) {
	lowest := m.Lower[len(m.Lower)-1]
	c.Step(m.Kind.String(), lowest)
	c.Part(prog.PartSource)
	at := c.Slot()
	c.Call(prog.SysOpenat, prog.AtCwd, c.String(lowest), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(at)
	c.mustBe(at, m.Same)
	c.lowest = append(c.lowest, at)
}

// takeLowest gives the next of these directories a number, which is its name until letLowest.
func (c *compiler) takeLowest() string {
	at := c.lowest[0]
	c.lowest = c.lowest[1:]
	c.Call(prog.SysDup3, at.Arg(), prog.Int(c.o.ScratchFd+2), prog.Int(openTreeCloexec))
	c.Close(at)
	return fdPath(c.o.ScratchFd + 2)
}

// openAll opens the sources of all n binds of p.
func (c *compiler) openAll(p mounts.Plan, n int) {
	c.sources, c.opened = c.Slots(n), n
	at := c.sources
	for i := range p {
		if m := &p[i]; m.Kind == mounts.KindBind {
			c.Mount(i)
			c.openSource(m, at)
			at++
		}
	}
	c.Mount(-1)
}

// openSource puts the source of m, with its flags, into a slot, which stays empty if an optional source is missing.
func (c *compiler) openSource(m *mounts.Mount, to prog.Slot) {
	c.Step(m.Kind.String(), m.Source)
	c.Part(prog.PartSource)
	var open prog.Ref
	if c.o.Classic {
		open = c.Call(prog.SysOpenat, prog.AtCwd, c.String(m.Source), c.Open(prog.PathOnly|prog.CloseOnExec), prog.Int(0)).To(to)
	} else {
		open = c.Call(prog.SysOpenTree, prog.AtCwd, c.String(m.Source), prog.Int(openTreeClone|openTreeCloexec|recursive(m))).To(to)
	}
	var missing prog.Label
	if m.Optional {
		missing = open.Tolerate(enoent).OnTolerated()
	}
	c.mustBe(to, m.Same)
	if !c.o.Classic {
		c.Step(m.Kind.String(), m.Source)
		c.setattr(to, recursive(m), attrs(m))
	}
	c.Here(missing)
}

// mustBe fails with ESTALE if fd is another file.
func (c *compiler) mustBe(fd prog.Slot, id mounts.FileID) {
	if id != (mounts.FileID{}) {
		MustBe(c.Builder, fd, id, c.statx)
	}
}

// StatxSize is the size of a struct statx.
const StatxSize = statxSize

// MustBe adds what fails with ESTALE where fd is not the file id. statx has room for a struct statx.
func MustBe(c *prog.Builder, fd prog.Slot, id mounts.FileID, statx prog.Ptr) {
	c.Part(prog.PartChanged)
	c.Call(prog.SysStatx, fd.Arg(), c.String(""), prog.Int(atEmptyPath), prog.Int(statxBasic), statx.Arg())
	for _, w := range [...]struct {
		at    prog.Ptr
		value uint32
	}{
		{statxInoOffset, uint32(id.Ino)}, {statxInoOffset + 4, uint32(id.Ino >> 32)},
		{statxDevOffset, id.Major}, {statxDevOffset + 4, id.Minor},
	} {
		same := c.If(statx+w.at, ^uint32(0), w.value)
		c.Fail(estale)
		c.Here(same)
	}
	c.Part(prog.PartNone)
}

func recursive(m *mounts.Mount) int {
	if m.NonRecursive {
		return 0
	}
	return atRecursive
}

func (c *compiler) bind(m *mounts.Mount) error {
	t := tree{source: m.Source, flags: attrs(m), classic: c.o.Classic}
	if c.o.Classic {
		if err := c.classicSource(m, &t); err != nil {
			return err
		}
	}
	if c.used < c.opened {
		t.fd = c.sources + prog.Slot(c.used)
		c.used++
	} else {
		t.fd = c.Slot()
		c.openSource(m, t.fd)
	}
	c.Step(m.Kind.String(), m.Target)
	var missing prog.Label
	if m.Optional {
		missing = c.Call(prog.SysFcntl, t.fd.Arg(), prog.Int(fGetfd)).Tolerate(ebadf).OnTolerated()
	}
	c.attach(t, m, c.likeTarget(t, m))
	if f := c.footing(); m.Optional && f.held && relative(m.Target) != "" {
		attached := c.Jump()
		c.Here(missing)
		how, size := c.howIn(3)
		c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(m.Target)), how, size).To(c.held[c.index])
		c.Here(attached)
		return nil
	}
	c.Here(missing)
	return nil
}
