package confine

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
)

// Access is what a command may do with what is at a path, and below it.
type Access uint8

// The accesses. Each but Device has all of those before it.
const (
	None   Access = iota // it is hidden
	Read                 // read, list, execute
	Write                // make, change, rename, remove
	Device               // read from it, write to it, and control it: no directory
)

// A Node is a directory or file that is opened by its name in the one above it, without following a link.
type Node struct {
	Name     string // of the topmost one "/"
	Access   Access
	File     bool          // it is no directory; false: it may be one
	Required bool          // no command is run without it; false: where it is not there any more, it is left out
	Same     mounts.FileID // what a required one has to be; zero: whatever is there
	Nodes    []Node
}

// Needed reports whether n, or something below it, is Required.
func (n *Node) Needed() bool {
	return n.Required || slices.ContainsFunc(n.Nodes, func(n Node) bool { return n.Needed() })
}

// An Entry is what is in a directory; links, which need no rule, and sockets, for which there is none, are not.
type Entry struct {
	Name string
	File bool
}

// Marks say what is at which path, for all below it down to the next mark. The zero Marks hide everything.
type Marks struct {
	root mark
}

type mark struct {
	name     string
	set      bool
	required bool
	same     mounts.FileID
	access   Access
	below    []*mark
}

// Cover sets what is at a path and below it: marks that are there already are removed.
func (m *Marks) Cover(at string, a Access) {
	n := m.at(at)
	n.set, n.access, n.below, n.required, n.same = true, a, nil, false, mounts.FileID{}
}

// Grant is Cover for what no command is run without; same says what it has to be.
func (m *Marks) Grant(at string, a Access, same mounts.FileID) {
	m.Cover(at, a)
	n := m.at(at)
	n.required, n.same = true, same
}

// at is the mark at a path, which is made if there is none.
func (m *Marks) at(at string) *mark {
	n := &m.root
	n.name = "/"
	for name := range strings.SplitSeq(strings.Trim(path.Clean(at), "/"), "/") {
		if name == "" {
			break
		}
		i := slices.IndexFunc(n.below, func(b *mark) bool { return b.name == name })
		if i < 0 {
			i = len(n.below)
			n.below = append(n.below, &mark{name: name})
		}
		n = n.below[i]
	}
	return n
}

// Access is what a command may do with what is at a path.
func (m *Marks) Access(at string) Access {
	a, n := m.root.access, &m.root
	for name := range strings.SplitSeq(strings.Trim(path.Clean(at), "/"), "/") {
		i := slices.IndexFunc(n.below, func(b *mark) bool { return b.name == name })
		if i < 0 {
			break
		}
		if n = n.below[i]; n.set {
			a = n.access
		}
	}
	return a
}

// maxNodes bounds the rules of one command.
const maxNodes = 8000

// A Tree has the rules for the kernel.
type Tree struct {
	Root Node
	// Fixed are directories whose entries a command may change, but to which it can add none, for something in them
	// is hidden or read-only. Nil: there are none.
	Fixed []string
}

// Compile makes the rules. list says what is in a directory; an error of it is passed on.
func (m *Marks) Compile(list func(dir string) ([]Entry, error)) (Tree, error) {
	c := compiler{list: list}
	root, err := c.node(&m.root, "/", None, None)
	root.Name = "/"
	slices.Sort(c.fixed)
	return Tree{Root: root, Fixed: c.fixed}, err
}

type compiler struct {
	list  func(dir string) ([]Entry, error)
	fixed []string
	count int
}

// node makes the rules for what is at a mark, where above is what there is without it, and allowed what rules for
// directories above it allow.
func (c *compiler) node(m *mark, at string, above, allowed Access) (n Node, err error) {
	a := above
	if m.set {
		a = m.access
	}
	n = Node{Name: m.name, Required: m.required, Same: m.same}
	if c.count++; c.count > maxNodes {
		return n, fmt.Errorf("more than %d files would have to be allowed one by one", maxNodes)
	}
	if !m.lessBelow(a) {
		if a != allowed {
			n.Access = a
		}
		for _, b := range m.below {
			if !b.moreBelow(a) {
				continue
			}
			sub, err := c.node(b, path.Join(at, b.name), a, a)
			if err != nil {
				return n, err
			}
			n.Nodes = append(n.Nodes, sub)
		}
		return n, nil
	}
	if a == Write {
		c.fixed = append(c.fixed, at)
	}
	entries, err := c.list(at)
	if err != nil {
		return n, err
	}
	for _, e := range entries {
		if slices.ContainsFunc(m.below, func(b *mark) bool { return b.name == e.Name }) {
			continue
		}
		if c.count++; c.count > maxNodes {
			return n, fmt.Errorf("more than %d files would have to be allowed one by one", maxNodes)
		}
		n.Nodes = append(n.Nodes, Node{Name: e.Name, Access: a, File: e.File})
	}
	for _, b := range m.below {
		sub, err := c.node(b, path.Join(at, b.name), a, None)
		if err != nil {
			return n, err
		}
		if i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == b.name }); i >= 0 {
			sub.File = entries[i].File
		} else if !sub.Needed() {
			continue // a link, or nothing
		}
		if sub.Access != None || len(sub.Nodes) > 0 {
			n.Nodes = append(n.Nodes, sub)
		}
	}
	return n, nil
}

// lessBelow reports whether something below may not be used as a is.
func (m *mark) lessBelow(a Access) bool {
	return slices.ContainsFunc(m.below, func(b *mark) bool {
		return b.set && b.access < a || b.lessBelow(a)
	})
}

// moreBelow reports whether something at m or below may be used as a is not.
func (m *mark) moreBelow(a Access) bool {
	return m.set && m.access > a || slices.ContainsFunc(m.below, func(b *mark) bool { return b.moreBelow(a) })
}
