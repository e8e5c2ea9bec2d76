//go:build linux

package mountprog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// Whiteouts that are made ahead, while a sandbox waits for its Program: two hundred of them take a quarter of the time
// of all mounts. They are a guess. A front layer that hides most of them takes them and corrects the rest, so they do
// not change what is hidden in the end.

// Marks are a tmpfs, which will hold the new root, with a directory of whiteouts for each Group.
type Marks struct {
	Fd     int // the tmpfs's descriptor in the child
	Groups []Group
}

// A Group is a list of names in a directory.
type Group struct {
	Dir   string // relative; empty: the layer itself, which is the first of Marks
	Names []string
}

func marksName(i int) string { return "m" + strconv.Itoa(i) }

// ByDir returns the Groups for paths that are to be hidden.
func ByDir(paths []string) []Group {
	groups := byDir(topmost(paths))
	if i := groupOf(groups, ""); i > 0 {
		top := groups[i]
		groups = slices.Insert(slices.Delete(groups, i, i+1), 0, top)
	}
	return groups
}

func byDir(paths []string) (groups []Group) {
	at := make(map[string]int)
	for _, path := range paths {
		dir, base := "", path
		if i := strings.LastIndexByte(path, '/'); i > 0 {
			dir, base = path[:i], path[i+1:]
		}
		i, ok := at[dir]
		if !ok {
			i = len(groups)
			at[dir] = i
			groups = append(groups, Group{Dir: dir})
		}
		groups[i].Names = append(groups[i].Names, base)
	}
	return groups
}

// CompileMarks adds the operations that make marks, and returns the slot of the tmpfs. There must be a new user
// namespace.
func CompileMarks(b *prog.Builder, groups []Group) (fd prog.Slot) {
	c := compiler{Builder: b}
	c.Step("prepare", "/")
	umask := c.Slot()
	c.Call(prog.SysUmask, prog.Int(0)).To(umask)
	t := c.newBase(true)
	deleted := c.String("deleted")
	c.Call(prog.SysMknodat, t.fd.Arg(), deleted, prog.Int(sIFCHR), prog.Int(0))
	for i, g := range groups {
		name, dir := c.String(marksName(i)), c.Slot()
		c.Call(prog.SysMkdirat, t.fd.Arg(), name, prog.Int(defaultParentPerm))
		c.Call(prog.SysOpenat, t.fd.Arg(), name, c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(dir)
		c.Call(prog.Links, t.fd.Arg(), deleted, dir.Arg(), c.String(strings.Join(g.Names, "/")))
		c.Close(dir)
	}
	c.Call(prog.SysUmask, umask.Arg())
	return t.fd
}

// of returns the marks for a layer that hides most of their names, or nil.
func (m *Marks) of(hidden []Group) *layerMarks {
	if m == nil || len(m.Groups) == 0 || m.Groups[0].Dir != "" {
		return nil
	}
	made := m.Groups[0].Names
	g := groupOf(hidden, "")
	if g < 0 || 2*(len(made)-len(missing(hidden[g].Names, made))) <= len(made) {
		return nil
	}
	return &layerMarks{groups: m.Groups, left: make(map[string][]string)}
}

type layerMarks struct {
	groups []Group
	left   map[string][]string // by the directories that are in the layer: the names that still have to be marked
}

func groupOf(groups []Group, dir string) int {
	return slices.IndexFunc(groups, func(g Group) bool { return g.Dir == dir })
}

func (m *layerMarks) missing(g Group) []string {
	if m != nil {
		if left, ok := m.left[g.Dir]; ok {
			return left
		}
	}
	return g.Names
}

// putMarks moves the marks for p's path there, if there are some.
func (c *compiler) putMarks(m *layerMarks, hidden []Group, layer prog.Slot, p mounts.Perm) bool {
	if m == nil || groupOf(hidden, p.Path) < 0 {
		return false
	}
	i := groupOf(m.groups, p.Path)
	if i < 0 {
		return false
	}
	name, dir := c.String(marksName(i)), c.Slot()
	c.Call(prog.SysOpenat, c.base.Arg(), name, c.Open(prog.Directory|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(dir)
	if mode := unixMode(p.Perm); mode != defaultParentPerm {
		c.Call(prog.SysFchmod, dir.Arg(), prog.Int(mode))
	}
	c.Call(prog.SysRenameat2, c.base.Arg(), name, layer.Arg(), c.String(p.Path), prog.Int(0))
	c.mend(m, i, hidden, dir)
	c.Close(dir)
	return true
}

// mend removes unwanted marks of the i-th Group.
func (c *compiler) mend(m *layerMarks, i int, hidden []Group, dir prog.Slot) {
	made, wanted := m.groups[i], hidden[groupOf(hidden, m.groups[i].Dir)]
	for _, name := range missing(wanted.Names, made.Names) {
		c.Call(prog.SysUnlinkat, dir.Arg(), c.String(name), prog.Int(0))
	}
	m.left[made.Dir] = missing(made.Names, wanted.Names)
}

func missing(list, names []string) (left []string) {
	for _, name := range names {
		if _, found := slices.BinarySearch(list, name); !found {
			left = append(left, name)
		}
	}
	return left
}
