package runslater

import (
	"path"
	"strings"
)

// Kind is what is at a path. The zero Kind is that nothing is there.
type Kind uint8

// The kinds.
const (
	Missing Kind = iota
	File
	Directory
	Link
	Other // a device, a socket, or what cannot be looked at
)

// KindOf is the kind of what has a mode, as stat(2) tells it.
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

// MaxFile bounds the files that are read, in bytes. A larger one is held to execute
// something.
const MaxFile = 1 << 20

// A View is one state of the roots. Paths are absolute and clean; nothing is found outside
// of the roots, and no link is followed.
type View interface {
	Kind(path string) Kind
	// Read returns a file of at most MaxFile bytes; ok is false where there is none.
	Read(path string) (text string, ok bool)
	// Target returns the text of a link, or nothing.
	Target(path string) string
	// Names lists a directory, all of it.
	Names(path string) []string
	// Survey is Names of those that are wanted, and tells in which directories, of all, something
	// has that name.
	Survey(path, name string, want func(string) bool) (names, holding []string)
}

// maxLinks bounds how many links are followed one after the other.
const maxLinks = 40

// resolve follows the links in an absolute path, and calls visit for each link on the way
// and for where it ends, in the roots or not.
func resolve(v View, p string, visit func(string)) string {
	rest := strings.Split(strings.TrimPrefix(p, "/"), "/")
	done, links := "/", 0
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
	visit(done)
	return done
}

// absolute is where a path leads that something in dir names. Empty: nobody can say.
func absolute(dir, name string) string {
	switch {
	case name == "" || name[0] == '~':
		return ""
	case path.IsAbs(name):
		return path.Clean(name)
	}
	return path.Join(dir, name)
}
