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

// MaxFile is the largest size of a file that is read, in bytes. A larger file is assumed to execute something.
const MaxFile = 1 << 20

// A View is one state of the roots. Paths are absolute and clean. Outside the roots it has nothing, and it follows no
// link.
type View interface {
	Kind(path string) Kind
	// Read returns a file of at most MaxFile bytes; ok is false if there is none.
	Read(path string) (text string, ok bool)
	// Target returns the text of a link, or "".
	Target(path string) string
	// Names lists all names in a directory.
	Names(path string) []string
	// Survey returns the wanted names in a directory, and all subdirectories that hold something with a name.
	Survey(path, name string, want func(string) bool) (names, holding []string)
}

// maxLinks is how many links are followed one after the other.
const maxLinks = 40

// links caches what is at paths of a View, so that each link of a chain is read only once.
type links struct {
	view  View
	roots []string
	known map[string]target
	bytes int // of the paths in known
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

// resolve follows the links in an absolute path. It calls visit for each link on the way and for the end, inside the
// roots or not.
func resolve(l *links, p string, visit func(string)) string {
	end := resolveIn(l, "/", strings.TrimPrefix(p, "/"), visit)
	visit(end)
	return end
}

// resolveIn is resolve for a path below a directory without links. It visits the end only after too many links. If the
// end is below a directory whose path is as long as a path can be, it is that directory, and visited.
func resolveIn(l *links, done, p string, visit func(string)) string {
	rest, followed := strings.Split(p, "/"), 0
	missing := "" // a path at which nothing is, with done at or below it
	deep := 0     // how many elements below done the path has come
	for len(rest) > 0 {
		e := rest[0]
		rest = rest[1:]
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
			t = l.at(at)
		}
		if t.none {
			missing = at
		}
		if t.to == "" {
			done = at
			continue
		}
		visit(at)
		if followed++; followed > maxLinks {
			return at
		}
		if path.IsAbs(t.to) {
			done = "/"
		}
		rest = append(strings.Split(t.to, "/"), rest...)
	}
	if deep > 0 {
		visit(done)
	}
	return done
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
