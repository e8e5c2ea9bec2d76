package runslater

import (
	"path"
	"strings"
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

// links caches the targets of links, by their paths; "": not a link. So each link of a chain is read only once.
type links struct {
	View
	to map[string]string
}

func (l *links) Kind(p string) Kind {
	if l.Target(p) != "" {
		return Link
	}
	return Other
}

func (l *links) Target(p string) string {
	to, known := l.to[p]
	if !known {
		if l.View.Kind(p) == Link {
			to = l.View.Target(p)
		}
		l.to[p] = to
	}
	return to
}

// resolve follows the links in an absolute path. It calls visit for each link on the way and for the end, inside the
// roots or not.
func resolve(v View, p string, visit func(string)) string {
	end := resolveIn(v, "/", strings.TrimPrefix(p, "/"), visit)
	visit(end)
	return end
}

// resolveIn is resolve for a path below a directory without links. It visits the end only after too many links.
func resolveIn(v View, done, p string, visit func(string)) string {
	rest, links := strings.Split(p, "/"), 0
	for len(rest) > 0 {
		at := path.Join(done, rest[0])
		rest = rest[1:]
		if v.Kind(at) != Link {
			done = at
			continue
		}
		visit(at)
		if links++; links > maxLinks {
			return at
		}
		to := v.Target(at)
		if path.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
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
