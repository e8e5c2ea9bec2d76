//go:build linux

package mountprog

import (
	"path"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// A mount point can be neither renamed nor removed where it is mounted, but a directory
// above it can. A process that may write to that one could move what lies below it away, with
// what is mounted over it, and put something else in its place: a rule for a path would
// not hold any more, in this sandbox or in the next one with the same rules. So each
// directory between a writable mount and what is mounted below that becomes a mount point
// too: it is bound onto itself.
//
// What was written to such a tree before, by other sandboxes, is hostile. No symbolic link
// in it is followed, whatever is mounted there.

// footing is what a step stands on.
type footing struct {
	pin []string // directories to bind onto themselves first, parents before what is in them

	// base is the target of the mount that the step's target lies in, where what was
	// written there can be from former sandboxes. Empty: it cannot.
	base string
}

// ground is what was mounted at a path last.
type ground struct {
	order  int
	writes bool   // the command can write there
	base   string // see footing
}

// footings are what the steps of p stand on. Nil: none of them lies in something that can
// be written to.
func footings(p mounts.Plan) []footing {
	first := slices.IndexFunc(p, func(m mounts.Mount) bool { return writes(&m) })
	if first < 0 {
		return nil
	}
	var list []footing
	order, at, pinned := 0, make(map[string]ground, len(p)), make(map[string]int)
	remounts := slices.ContainsFunc(p, func(m mounts.Mount) bool { return m.Kind == mounts.KindRemount })
	for i := range p {
		m := &p[i]
		if !m.Covers() {
			continue
		}
		target := path.Clean("/" + m.Target)
		on, where := ground{order: -1, writes: true}, "/" // the sandbox's root, if nothing is mounted there
		for dir := target; dir != "/"; {
			dir = path.Dir(dir)
			if g, ok := at[dir]; ok && g.order > on.order {
				on, where = g, dir
			}
		}
		if i > first && target != "/" && on.writes && (on.base != "" || closed(m) || remounts && remounted(p, i)) {
			if list == nil {
				list = make([]footing, len(p))
			}
			f := footing{base: on.base}
			order++
			for dir := path.Dir(target); dir != where; dir = path.Dir(dir) {
				// A pin covers nothing: what is mounted in the directory is in it, too. It is
				// there until something is mounted over it.
				if pinned[dir] <= max(on.order, 0) {
					f.pin = append(f.pin, dir)
					pinned[dir] = order
				}
			}
			slices.Reverse(f.pin)
			list[i] = f
		}
		order++
		g := ground{order: order, writes: writes(m) && !(remounts && remounted(p, i))}
		if g.writes && lasts(m) {
			g.base = target
		}
		at[target] = g
	}
	return list
}

// writes reports whether a command can make and rename things in what m mounts.
func writes(m *mounts.Mount) bool {
	switch m.Kind {
	case mounts.KindBind, mounts.KindTmpfs:
		return !m.ReadOnly
	case mounts.KindOverlay:
		return !m.ReadOnly && (m.Upper != "" || m.Temporary)
	case mounts.KindDev:
		return true
	}
	return false
}

// lasts reports whether what is written to m, or was before, can be there when a sandbox
// begins.
func lasts(m *mounts.Mount) bool { return m.Kind == mounts.KindBind || m.Kind == mounts.KindOverlay }

// closed reports whether m keeps a command from writing or reading. Where it does not, it
// is of no use to move it away inside of a file system that is gone afterwards.
func closed(m *mounts.Mount) bool { return m.Kind == mounts.KindBlock || m.ReadOnly }

// remounted reports whether a later step makes what step i mounts read-only.
func remounted(p mounts.Plan, i int) bool {
	for j := i + 1; j < len(p); j++ {
		if p[j].Kind == mounts.KindRemount && relative(p[j].Target) == relative(p[i].Target) {
			return true
		}
	}
	return false
}

// footing is what the step that is being added stands on.
func (c *compiler) footing() *footing {
	if c.index < len(c.on) {
		return &c.on[c.index]
	}
	return &footing{}
}

// pin binds the directories above the target of m onto themselves, where that is called
// for. Those that are missing are made, if m makes its target.
func (c *compiler) pin(m *mounts.Mount) {
	f := c.footing()
	for _, dir := range f.pin {
		c.Step("pin", dir)
		under := c.Slot()
		var missing prog.Label
		makeDirs := func() {
			c.Call(prog.MakeDirs, c.root.Arg(), c.String(relative(dir)), prog.Int(parentPerm(m))).To(under)
		}
		switch {
		case f.base == "":
			// In memory there is nothing but what the steps before have made.
			how, size := c.howIn(0)
			open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(dir)), how, size).To(under).TolerateAny()
			if m.MustExist {
				missing = open.OnTolerated()
				break
			}
			found := open.OnSuccess()
			makeDirs()
			c.Here(found)
		case m.MustExist:
			missing = c.below(f.base, dir, under, true)
		default:
			c.made(f.base, dir, under, makeDirs)
		}
		if c.o.Classic {
			c.mountOn(under, "", "", msBind|msRec, "", under)
		} else {
			t, empty := c.Slot(), c.String("")
			c.Call(prog.SysOpenTree, under.Arg(), empty, prog.Int(openTreeClone|openTreeCloexec|atEmptyPath|atRecursive)).To(t)
			c.Call(prog.SysMoveMount, t.Arg(), empty, under.Arg(), empty, prog.Int(moveFromEmpty|moveToEmpty))
			c.Close(t)
		}
		c.Close(under)
		c.Here(missing)
	}
	if len(f.pin) > 0 {
		c.Step(m.Kind.String(), m.Target)
	}
}

// made is below for what makeIt makes, if it is missing, and leaves in the same slot.
func (c *compiler) made(base, target string, to prog.Slot, makeIt func()) {
	missing := c.below(base, target, to, true)
	found := c.Jump()
	c.Here(missing)
	makeIt()
	c.Call(prog.SysClose, to.Arg())
	c.below(base, target, to, false) // it may have been swapped for a link meanwhile
	c.Here(found)
}

// below opens target, which lies in what is mounted at base, and follows no link behind
// base. Where nothing is, the label is where to go on if that is not a mistake.
func (c *compiler) below(base, target string, to prog.Slot, optional bool) (missing prog.Label) {
	how, size := c.howIn(0)
	plain := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(target)), how, size).To(to).TolerateAny().OnSuccess()
	// Before base there may be links.
	from, own := c.root, relative(base) != ""
	if own {
		from = c.Slot()
		how, size := c.howIn(3)
		c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(base)), how, size).To(from)
	}
	how, size = c.howIn(0)
	open := c.Call(prog.SysOpenat2, from.Arg(), c.String(relative(path.Clean("/" + target)[len(path.Clean("/"+base)):])), how, size).To(to)
	if optional {
		found := open.Tolerate(enoent, syscall.ENOTDIR).OnSuccess()
		if own {
			c.Call(prog.SysClose, from.Arg())
		}
		missing = c.Jump()
		c.Here(found)
	}
	if own {
		c.Close(from)
	}
	c.Here(plain)
	return missing
}
