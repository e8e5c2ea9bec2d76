package runslater

import (
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

// A Kind says what is at a path. The zero Kind: nothing.
type Kind uint8

const (
	Missing Kind = iota
	File
	Directory
	Link
	Other // a device, a socket, or what cannot be looked at
)

// KindOf returns the kind of an object with a mode, as stat(2) returns it.
func KindOf(mode uint32) Kind {
	const typeMask, regular, directory, link = 0o170000, 0o100000, 0o040000, 0o120000
	switch mode & typeMask {
	case regular:
		return File
	case directory:
		return Directory
	case link:
		return Link
	}
	return Other
}

// MaxFile is the largest size of a file at a path that is read, in bytes. A larger one is assumed to execute something.
// The index of a million files is smaller.
func MaxFile(p string) int64 {
	if isIndex(fold(path.Base(p))) {
		return 128 << 20
	}
	return 1 << 20
}

// A View is one state of the roots. Paths are absolute and clean. Outside the roots it has nothing, and it follows no
// link.
type View interface {
	Kind(path string) Kind
	// Read returns a file that is not larger than MaxFile; ok is false if there is none.
	Read(path string) (text string, ok bool)
	// Target returns the text of a link, or "".
	Target(path string) string
	// Names lists all names in a directory.
	Names(path string) []string
	// Survey returns the wanted names in a directory, and all subdirectories that hold something with a name.
	Survey(path, name string, want func(string) bool) (names, holding []string)
}

// maxLinks is how many links the kernel follows in one path.
const maxLinks = 40

// links caches what is at paths of a View, and where links lead in the end, so that each link of a chain is read and
// followed only once: many links can lead through one chain, and the target of each can have a thousand elements.
type links struct {
	view  View
	roots []string
	known map[string]target
	bytes int               // of the paths in known
	ends  map[string]string // by the path of the link; "": nowhere, through too many links
	kept  int               // bytes of the paths in ends
}

// A target is where a link leads.
type target struct {
	to   string // empty: it is no link
	none bool   // nothing is there, so nothing below it either
}

// mostKnown limits the bytes of the paths that links remembers: a link can name a thousand long ones.
const mostKnown = 16 << 20

func (l *links) at(p string) target {
	t, known := l.known[p]
	if known {
		return t
	}
	switch l.view.Kind(p) {
	case Link:
		t.to = l.view.Target(p)
	case Missing: // outside the roots, it is only unknown
		t.none = slices.ContainsFunc(l.roots, func(root string) bool { return paths.Inside(p, root) })
	}
	if l.bytes += len(p) + len(t.to); l.bytes <= mostKnown {
		if l.known == nil {
			l.known = map[string]target{}
		}
		l.known[p] = t
	}
	return t
}

// resolveIn follows the links in a path below a directory without links, and returns where it leads. It calls visit for
// each link on the way that no earlier call has followed to its end. If the end is below a directory whose path is as
// long as a path can be, it is that directory, and visited.
func resolveIn(l *links, done, p string, visit func(string)) string {
	w := walk{links: l, visit: visit}
	end, deep, _ := w.follow(done, p, 0)
	if deep > 0 {
		visit(end)
	}
	return end
}

// A walk is one call of resolveIn.
type walk struct {
	*links
	visit    func(string)
	followed int // links whose end was not known
}

// follow is resolveIn after depth links, each in the target of the one before. deep is how many elements the path comes
// below the end. If there are too many links, over is the depth at which it stopped; else it is zero.
func (w *walk) follow(done, p string, depth int) (end string, deep, over int) {
	missing := "" // a path at which nothing is, with done at or below it
	for e := range strings.SplitSeq(p, "/") {
		switch {
		case e == "" || e == ".":
			continue
		case e == ".." && deep > 0:
			deep--
			continue
		case e == "..":
			if done == missing {
				missing = ""
			}
			done = path.Dir(done)
			continue
		case deep > 0 || len(done)+len(e) >= maxPath:
			deep++
			continue
		}
		at := path.Join(done, e)
		var t target
		if missing == "" {
			t = w.at(at)
		}
		if t.none {
			missing = at
		}
		if t.to == "" {
			done = at
			continue
		}
		w.visit(at)
		if done, deep, over = w.link(done, at, t.to, depth+1); over > 0 {
			return done, 0, over
		}
	}
	return done, deep, 0
}

// link follows a link in the directory dir. It goes on beyond what the kernel follows: so the next call does not follow
// all of the same links again, either because their ends are known, or because the kernel does not reach them.
func (w *walk) link(dir, at, to string, depth int) (end string, deep, over int) {
	if end, known := w.ends[at]; known && end == "" {
		return at, 0, depth + maxLinks
	} else if known {
		return end, 0, 0
	}
	if w.followed++; w.followed > 2*maxLinks {
		return at, 0, depth
	}
	if path.IsAbs(to) {
		dir = "/"
	}
	end, deep, over = w.follow(dir, to, depth)
	switch {
	case over == 0 && deep == 0:
		w.keep(at, end)
	case over-depth >= maxLinks:
		w.keep(at, "")
	}
	return end, deep, over
}

// keep remembers where a link leads.
func (l *links) keep(at, end string) {
	if l.kept += len(at) + len(end); l.kept > mostKnown {
		return
	}
	if l.ends == nil {
		l.ends = map[string]string{}
	}
	l.ends[at] = end
}

// absolute returns the target of a path that something in dir names. Empty: unknown, or nothing can be there.
func absolute(dir, name string) string {
	if name == "" || name[0] == '~' {
		return ""
	}
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	if name = path.Clean(name); len(name) >= maxPath {
		return ""
	}
	return name
}
