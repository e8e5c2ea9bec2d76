//go:build linux

package mountprog

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// A mount point can be neither renamed nor removed where it is mounted, but a directory above it can. A process that
// may write to that one could move what lies below it away, with what is mounted over it, and put something else in its
// place: a rule for a path would not hold any more, in this sandbox or in the next one with the same rules. So each
// directory between a writable mount and what is mounted below that becomes a mount point too: it is bound onto itself.
//
// What was written to such a tree before, by other sandboxes, is hostile. No symbolic link
// in it is followed, whatever is mounted there.

// footing says what a step of the Plan is based on.
type footing struct {
	pin []string // directories to bind onto themselves first, parents before what is in them

	// base is the target of that mount, if earlier sandboxes can have written there; otherwise empty.
	base   string
	ground int

	held bool // later steps look for their targets below the root of what this one mounts
	host bool // what the host has at the path of the target is there
}

// ground is the last mount at a path.
type ground struct {
	order  int
	index  int    // in the Plan
	writes bool   // the command can write there
	base   string // see footing
	host   bool   // it shows what the host has at the same path
}

// footings are those of the steps of p; nil: no step lies in a writable mount.
func footings(p mounts.Plan) []footing {
	first := slices.IndexFunc(p, func(m mounts.Mount) bool { return writes(&m) })
	if first < 0 {
		return nil
	}
	var list []footing
	footing := func(i int) *footing {
		if list == nil {
			list = make([]footing, len(p))
		}
		return &list[i]
	}
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
		near, covered := at[target]
		if !covered {
			near = on
		}
		if near.host && m.Onto != (mounts.FileID{}) {
			footing(i).host = true
		}
		if i > first && target != "/" && on.writes && (on.base != "" || closed(m) || remounts && remounted(p, i)) {
			f := footing(i)
			f.base, f.ground = on.base, on.index
			if on.base != "" {
				footing(on.index).held = true
			}
			order++
			for dir := path.Dir(target); dir != where; dir = path.Dir(dir) {
				// A pin covers nothing, because it shows what is mounted in the directory, and lasts
				// until something is mounted over it.
				if pinned[dir] <= max(on.order, 0) {
					f.pin = append(f.pin, dir)
					pinned[dir] = order
				}
			}
			slices.Reverse(f.pin)
		}
		order++
		g := ground{order: order, index: i, writes: writes(m) && !(remounts && remounted(p, i))}
		g.host = (near.host || target == "/") && m.Kind == mounts.KindBind && !m.NonRecursive && path.Clean(m.Source) == target
		if g.writes && lasts(m) {
			g.base = target
		}
		at[target] = g
	}
	return list
}

// writes reports whether a command can create and rename files in what m mounts.
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

// lasts reports whether writes to m outlive a sandbox.
func lasts(m *mounts.Mount) bool { return m.Kind == mounts.KindBind || m.Kind == mounts.KindOverlay }

// closed reports whether m prevents reads or writes. Otherwise, moving it inside a temporary file system gains nothing.
func closed(m *mounts.Mount) bool { return m.Kind == mounts.KindBlock || m.ReadOnly }

func remounted(p mounts.Plan, i int) bool {
	for j := i + 1; j < len(p); j++ {
		if p[j].Kind == mounts.KindRemount && relative(p[j].Target) == relative(p[i].Target) {
			return true
		}
	}
	return false
}

func (c *compiler) footing() *footing {
	if c.index < len(c.on) {
		return &c.on[c.index]
	}
	return &footing{}
}

// holdAgain opens the roots that are held in dir once more, after it was bound onto itself with
// everything that is mounted in it: that has covered them.
func (c *compiler) holdAgain(dir string) {
	for i := range c.index {
		f := &c.on[i]
		if target := path.Clean("/" + c.plan[i].Target); !f.held || !strings.HasPrefix(target, dir+"/") {
			continue
		}
		from, rest := c.below(f, c.plan[i].Target)
		c.Call(prog.SysClose, c.held[i].Arg())
		how, size := c.howIn(0)
		c.Call(prog.SysOpenat2, from.Arg(), c.String(rest), how, size).To(c.held[i])
	}
}

// below is where a path, which lies in base, is looked up: the root of what is mounted there,
// and the path below that. Those who can rename the directories above base change nothing.
func (c *compiler) below(f *footing, target string) (from prog.Slot, rest string) {
	from = c.root
	if relative(f.base) != "" {
		from = c.held[f.ground]
	}
	return from, relative(path.Clean("/" + target)[len(path.Clean("/"+f.base)):])
}

// pin binds the directories above the target of m onto themselves where needed, and makes missing ones if m makes its
// target.
func (c *compiler) pin(m *mounts.Mount) {
	f := c.footing()
	for _, dir := range f.pin {
		c.Step("pin", dir)
		from, rest := c.below(f, dir)
		name, under := c.String(rest), c.Slot()
		var missing prog.Label
		makeDirs := func() {
			c.Call(prog.MakeDirs, from.Arg(), name, prog.Int(parentPerm(m))).To(under)
		}
		switch {
		case f.base == "":
			// In a temporary file system there is only what earlier steps made.
			how, size := c.howIn(0)
			open := c.Call(prog.SysOpenat2, from.Arg(), name, how, size).To(under).TolerateAny()
			if m.MustExist {
				missing = open.OnTolerated()
				break
			}
			found := open.OnSuccess()
			makeDirs()
			c.Here(found)
		case m.MustExist:
			missing = c.open(dir, under, true)
		default:
			c.made(dir, under, makeDirs)
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
		c.holdAgain(dir)
		c.Here(missing)
	}
	if len(f.pin) > 0 {
		c.Step(m.Kind.String(), m.Target)
	}
}

// made is open for what makeIt makes, if it is missing, and leaves in the same slot.
func (c *compiler) made(target string, to prog.Slot, makeIt func()) {
	missing := c.open(target, to, true)
	found := c.Jump()
	c.Here(missing)
	makeIt()
	c.Call(prog.SysClose, to.Arg())
	c.open(target, to, false) // it may have been swapped for a link meanwhile
	c.Here(found)
}

// open opens target, which lies in base, and follows no link behind that. Where nothing is, the
// label is where to go on if that is not a mistake.
func (c *compiler) open(target string, to prog.Slot, optional bool) (missing prog.Label) {
	from, rest := c.below(c.footing(), target)
	how, size := c.howIn(0)
	open := c.Call(prog.SysOpenat2, from.Arg(), c.String(rest), how, size).To(to)
	if optional {
		missing = open.Tolerate(enoent, syscall.ENOTDIR).OnTolerated()
	}
	return missing
}
