//go:build linux

package fanotify

// A place is where a directory is: a name in another one. Renaming a directory changes one
// place, and the paths of all below it.
type place struct {
	parent *place // nil: a root, or somewhere outside of all roots
	name   string
	root   int               // index of the root it is, if parent is nil; outside: it is none
	kids   map[string]*place // directories in it that are known

	key   string // what the engine Fanotify knows it by
	watch *watch // of the engine Inotify

	path string // relative to the root, as it was at the time of gen
	gen  uint64
}

// outside is the root of what is not below any.
const outside = -1

// maxKept is how long a path may be to be kept. Directories can be nested deeper than any path that the kernel takes,
// and keeping all of those would take memory by the square of the depth.
const maxKept = 4096

// places counts changes of places, so that paths which were kept are known to be right. The
// zero value counts from the beginning.
type places struct{ gen uint64 }

// where returns the root's index and the path relative to it, "." for the root itself.
// The index is outside if d is not below a root.
func (p *places) where(d *place) (root int, path string) {
	if d.gen == p.gen+1 {
		return d.root, d.path
	}
	top, length := d, 0
	for ; top.parent != nil; top = top.parent {
		length += len(top.name) + 1
	}
	if d != top {
		d.root = top.root
	}
	if d == top || top.root == outside {
		return top.root, "."
	}
	buf := make([]byte, length-1)
	end := len(buf)
	for at := d; at.parent != nil; at = at.parent {
		end -= len(at.name)
		copy(buf[end:], at.name)
		if end > 0 {
			end--
			buf[end] = '/'
		}
	}
	path = string(buf)
	if len(path) <= maxKept {
		d.path, d.gen = path, p.gen+1
	}
	return top.root, path
}

// join is the path of a name in a directory.
func join(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case name == ".":
		return dir
	}
	return dir + "/" + name
}

// put makes d be the directory name in parent. It returns what was thought to be there, and
// is nowhere now; nil for nothing.
func (p *places) put(d, parent *place, name string) (displaced *place) {
	if d.parent == parent && d.name == name && parent.kids[name] == d {
		return nil
	}
	displaced = parent.kids[name]
	if displaced != nil {
		p.take(displaced)
	}
	p.take(d)
	d.parent, d.name = parent, name
	if parent.kids == nil {
		parent.kids = make(map[string]*place)
	}
	parent.kids[name] = d
	return displaced
}

// take takes d away from where it is: it is outside from now on, with all below it.
func (p *places) take(d *place) {
	if d.parent == nil {
		return
	}
	if d.parent.kids[d.name] == d {
		delete(d.parent.kids, d.name)
	}
	d.parent, d.root = nil, outside
	if len(d.kids) > 0 || d.gen != 0 {
		p.gen++
	}
}

// all returns d and all that is known below it.
func (d *place) all() []*place {
	list := []*place{d}
	for i := 0; i < len(list); i++ {
		for _, kid := range list[i].kids {
			list = append(list, kid)
		}
	}
	return list
}
