//go:build linux

package mountprog

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// front makes the topmost lower layer of an overlay, with whiteouts for what m hides and with what m adds. It returns
// the layer's name in base, the working directory at that time.
func (c *compiler) front(m *mounts.Mount) string {
	hidden := byDir(topmost(m.Hide))
	marks := c.o.Marks.of(hidden)
	name, layer := c.frontDir(m, marks, hidden)
	deleted := c.String("deleted" + name)
	if len(m.Hide) > 0 { // another link costs less than another device
		c.Call(prog.SysMknodat, c.base.Arg(), deleted, prog.Int(sIFCHR), prog.Int(0))
	}
	perms := slices.SortedFunc(slices.Values(m.Perms), func(a, b mounts.Perm) int { return strings.Compare(a.Path, b.Path) })
	for i, p := range perms { // parents first
		if i > 0 && p.Path == perms[i-1].Path {
			continue
		}
		if j := strings.LastIndexByte(p.Path, '/'); j > 0 && !slices.ContainsFunc(perms[:i], func(above mounts.Perm) bool { return above.Path == p.Path[:j] }) {
			dir := c.Slot()
			c.Call(prog.MakeDirs, layer.Arg(), c.String(p.Path[:j]), prog.Int(defaultParentPerm)).To(dir)
			c.Close(dir)
		}
		if c.putMarks(marks, hidden, layer, p) {
			continue
		}
		c.Call(prog.SysMkdirat, layer.Arg(), c.String(p.Path), prog.Int(unixMode(p.Perm)))
	}
	for _, g := range hidden {
		dir := layer
		if g.Dir != "" {
			dir = c.Slot()
			c.Call(prog.MakeDirs, layer.Arg(), c.String(g.Dir), prog.Int(defaultParentPerm)).To(dir)
		}
		if names := marks.missing(g); len(names) > 0 {
			c.Call(prog.Links, c.base.Arg(), deleted, dir.Arg(), c.String(strings.Join(names, "/")))
		}
		if g.Dir != "" {
			c.Close(dir)
		}
	}
	for _, path := range m.Dirs {
		dir := c.Slot()
		c.Call(prog.MakeDirs, layer.Arg(), c.String(path), prog.Int(parentPerm(m))).To(dir)
		c.Close(dir)
	}
	for _, path := range m.Files {
		parent, base := layer, path
		if i := strings.LastIndexByte(path, '/'); i > 0 {
			parent, base = c.Slot(), path[i+1:]
			c.Call(prog.MakeDirs, layer.Arg(), c.String(path[:i]), prog.Int(parentPerm(m))).To(parent)
		}
		c.Call(prog.SysMknodat, parent.Arg(), c.String(base), prog.Int(sIFREG|mountPointFilePerm), prog.Int(0)).Tolerate(syscall.EEXIST)
		if parent != layer {
			c.Close(parent)
		}
	}
	for _, t := range m.Texts {
		c.text(layer, &t)
	}
	c.Close(layer)
	c.Call(prog.SysFchdir, c.base.Arg())
	return name
}

// frontDir makes the directory of a front layer, or takes the one with marks.
func (c *compiler) frontDir(m *mounts.Mount, marks *layerMarks, hidden []Group) (name string, layer prog.Slot) {
	layer = c.Slot()
	mode := perm(m, defaultParentPerm)
	if marks != nil {
		c.o.Marks = nil // they are used
		name = marksName(0)
		c.Call(prog.SysOpenat, c.base.Arg(), c.String(name), c.Open(prog.Directory|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(layer)
		if mode != defaultParentPerm {
			c.Call(prog.SysFchmod, layer.Arg(), prog.Int(mode))
		}
		c.mend(marks, 0, hidden, layer)
		return name, layer
	}
	name = "h" + strconv.Itoa(c.hidden)
	c.hidden++
	c.Call(prog.SysMkdirat, c.base.Arg(), c.String(name), prog.Int(mode))
	c.Call(prog.SysOpenat, c.base.Arg(), c.String(name), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(layer)
	return name, layer
}

func (c *compiler) text(layer prog.Slot, t *mounts.Text) {
	parent, base := layer, t.Path
	if i := strings.LastIndexByte(t.Path, '/'); i > 0 {
		parent, base = c.Slot(), t.Path[i+1:]
		c.Call(prog.MakeDirs, layer.Arg(), c.String(t.Path[:i]), prog.Int(defaultParentPerm)).To(parent)
	}
	mode := unixMode(t.Perm)
	if mode == 0 {
		mode = defaultDataPerm
	}
	f := c.Slot()
	c.Call(prog.SysOpenat, parent.Arg(), c.String(base), c.Open(prog.WriteOnly|prog.Create|prog.Exclusive|prog.NoFollow|prog.CloseOnExec), prog.Int(mode)).To(f)
	c.write(f, t.Data)
	c.Close(f)
	if parent != layer {
		c.Close(parent)
	}
}

func fronted(m *mounts.Mount) bool { return len(m.Hide)+len(m.Dirs)+len(m.Files)+len(m.Texts) > 0 }

// topmost are those paths, sorted, that are not below another one.
func topmost(paths []string) []string {
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	above := func(path string) bool {
		for i := range len(path) {
			if path[i] != '/' {
				continue
			}
			if _, found := slices.BinarySearch(sorted, path[:i]); found {
				return true
			}
		}
		return false
	}
	list := make([]string, 0, len(sorted))
	for _, path := range sorted {
		if !above(path) {
			list = append(list, path)
		}
	}
	return list
}
