//go:build linux

package mountprog

import (
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// shape says what to make if a target is missing.
type shape uint8

const (
	alwaysDir shape = iota
	likeTree        // a directory or a file, as the tree that goes there is
)

// howIn is a way to look up targets inside the new root: 0: without links (usual); 1: links only in parents; 2: with
// links; 3: as 2, and it is a directory; 4: as 1, and it is a directory.
func (c *compiler) howIn(i int) (how, size prog.Arg) {
	if !c.haveHow[i] {
		flags := prog.PathOnly | prog.CloseOnExec
		resolve := uint64(resolveInRoot | resolveNoMagic)
		switch i {
		case 0:
			resolve |= resolveNoSymlinks
		case 1:
			flags |= prog.NoFollow
		case 3:
			flags |= prog.Directory
		case 4:
			flags |= prog.Directory | prog.NoFollow
		}
		c.how[i], c.howSize = c.How(flags, 0, resolve)
		c.haveHow[i] = true
	}
	return c.how[i].Arg(), c.howSize
}

func (c *compiler) statMode(fd prog.Slot) {
	c.Call(prog.SysStatx, fd.Arg(), c.String(""), prog.Int(atEmptyPath), prog.Int(statxType), c.statx.Arg())
}

func parentPerm(m *mounts.Mount) uint32 {
	if m.ParentPerm != 0 {
		return uint32(m.ParentPerm.Perm())
	}
	return defaultParentPerm
}

// parent opens, or makes, the directory of target, and returns the last element.
func (c *compiler) parent(m *mounts.Mount) (dir prog.Slot, leaf string) {
	rel := relative(m.Target)
	cut := strings.LastIndexByte(rel, '/')
	if cut < 0 {
		return c.root, rel
	}
	leaf, rel = rel[cut+1:], rel[:cut]
	dir = c.Slot()
	c.Part(prog.PartParents)
	how, size := c.howIn(3)
	found := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dir).Tolerate(enoent).OnSuccess()
	if m.MustExist {
		c.Fail(enoent)
		c.Here(found)
		return dir, leaf
	}
	c.Call(prog.MakeDirs, c.root.Arg(), c.String(rel), prog.Int(parentPerm(m))).To(dir)
	c.Here(found)
	return dir, leaf
}

func (c *compiler) done(dir prog.Slot) {
	if dir != c.root {
		c.Close(dir)
	}
}

// target opens, or makes, the place of a mount; t will be attached there.
func (c *compiler) target(m *mounts.Mount, t tree, s shape) prog.Slot {
	c.pin(m)
	rel := relative(m.Target)
	dst := c.Slot()
	like := prog.Int(-1)
	if s == likeTree {
		like = t.fd.Arg()
	}
	if c.footing().base != "" {
		if m.MustExist {
			c.open(m.Target, dst, false)
		} else {
			c.made(m.Target, dst, func() {
				from, rest := c.below(c.footing(), m.Target)
				c.Call(prog.Target, from.Arg(), c.String(rest), like, prog.Int(parentPerm(m))).To(dst)
			})
		}
		c.mustCover(dst, m)
		return dst
	}
	how, size := c.howIn(0)
	plain := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dst).TolerateAny().OnSuccess()
	if m.MustExist {
		how, size = c.howIn(1)
		c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dst)
		c.refuseLink(dst)
	} else {
		c.Call(prog.Target, c.root.Arg(), c.String(rel), like, prog.Int(parentPerm(m))).To(dst)
	}
	c.Here(plain)
	c.mustCover(dst, m)
	return dst
}

// mustCover fails with ESTALE where a target is not the file of the host that it should be.
func (c *compiler) mustCover(dst prog.Slot, m *mounts.Mount) {
	if c.footing().host {
		c.mustBe(dst, m.Onto)
		c.Step(m.Kind.String(), m.Target)
	}
}

// refuseLink fails with ELOOP if fd is a symbolic link.
func (c *compiler) refuseLink(fd prog.Slot) {
	c.Part(prog.PartSymlink)
	c.statMode(fd)
	link := c.If(c.statx+statxModeOffset&^3, sIFMT, sIFLNK)
	fine := c.Jump()
	c.Here(link)
	c.Fail(eloop)
	c.Here(fine)
	c.Part(prog.PartNone)
}

// dirTarget is target for a directory, before there is anything to mount.
func (c *compiler) dirTarget(m *mounts.Mount) prog.Slot {
	if relative(m.Target) == "" {
		return 0
	}
	dst := c.target(m, tree{}, alwaysDir)
	c.Step(m.Kind.String(), m.Target)
	c.Call(prog.Mismatch, prog.Int(-1), dst.Arg())
	return dst
}

func (c *compiler) attach(t tree, m *mounts.Mount, dst prog.Slot) { c.keep(t, m, dst, nil) }

// keep is attach, and calls use with the root of the attached tree.
func (c *compiler) keep(t tree, m *mounts.Mount, dst prog.Slot, use func(root prog.Slot)) {
	c.remember(t, relative(m.Target))
	if relative(m.Target) == "" {
		// The tree becomes the root that later targets are looked up in.
		top := c.attachRoot(t)
		if c.attached {
			c.Close(c.root)
		}
		c.root, c.attached = top, true
		if use != nil {
			use(top)
		}
		return
	}
	top := t.fd
	if t.classic {
		top = c.classicMove(t, dst)
	} else {
		put := c.Call(prog.SysMoveMount, t.fd.Arg(), c.String(""), dst.Arg(), c.String(""), prog.Int(moveFromEmpty|moveToEmpty)).
			Tolerate(syscall.EINVAL, enotdir).OnSuccess()
		c.Call(prog.Mismatch, t.fd.Arg(), dst.Arg())
		c.Fail(syscall.EINVAL)
		c.Here(put)
		c.Close(dst)
	}
	if use != nil {
		use(top)
	}
	c.release(top)
}

// likeTarget is target for a mount that is a directory or not, like t.
func (c *compiler) likeTarget(t tree, m *mounts.Mount) prog.Slot {
	if relative(m.Target) == "" {
		return 0
	}
	return c.target(m, t, likeTree)
}

// attachAt attaches a tree at a name in a directory to which only this Program has written.
func (c *compiler) attachAt(t tree, dir prog.Slot, name string) {
	c.Close(c.attachIn(t, dir.Arg(), name, name, prog.NoFollow))
}

// attachRoot attaches a tree as the new root and returns a descriptor of its root.
func (c *compiler) attachRoot(t tree) prog.Slot {
	return c.attachIn(t, c.base.Arg(), "r", "r", prog.NoFollow)
}

// stackRoot attaches a tree over the host's root and returns a descriptor of its root.
func (c *compiler) stackRoot(t tree) prog.Slot {
	// ".." at the root stays there, but climbs onto what is mounted over it.
	return c.attachIn(t, prog.AtCwd, "/", "/..", prog.Directory)
}

// attachIn attaches a tree at a name in dir and returns a descriptor of its root. The classic form opens the path
// classic before and after.
func (c *compiler) attachIn(t tree, dir prog.Arg, name, classic string, f prog.OpenFlag) prog.Slot {
	if !t.classic {
		c.Call(prog.SysMoveMount, t.fd.Arg(), c.String(""), dir, c.String(name), prog.Int(moveFromEmpty))
		return t.fd
	}
	n := c.String(classic)
	open := func() prog.Slot {
		at := c.Slot()
		c.Call(prog.SysOpenat, dir, n, c.Open(prog.PathOnly|prog.CloseOnExec|f), prog.Int(0)).To(at)
		return at
	}
	return c.classicAttach(t, open(), open)
}
