package overlay

import (
	"io/fs"

	"github.com/nsrun/nsrun/change"
	"github.com/nsrun/nsrun/internal/escape"
)

// A Kind says how an object differs from the project's.
type Kind = change.Kind

// The kinds of change.
const (
	Added       = change.Added
	Modified    = change.Modified
	Deleted     = change.Deleted
	TypeChanged = change.TypeChanged
)

// An Aspect is one way in which two objects of the same type differ. Aspects are bits, and can be combined.
type Aspect uint8

// The aspects of a modified object.
const (
	Content    Aspect = 1 << iota // bytes of a file, text of a link, or of which file it is a name
	Mode                          // permission bits
	Owner                         // user or group
	Attributes                    // extended attributes and access control lists
)

// A Change is one object of a root that differs from the project's.
type Change struct {
	Kind Kind
	Root string // the root, absolute
	Path string // relative to Root, with slashes; "." is the root itself

	// Mode is the type and mode of the session's object; for Deleted, of the project's.
	Mode fs.FileMode

	// Size is the length of a regular file in bytes: of the session's, for Deleted of
	// the project's. Zero for everything else.
	Size int64

	// OldMode and OldSize are those of the project's object. Zero for Added.
	OldMode fs.FileMode
	OldSize int64

	// Aspects says what is different about a Modified object. Zero for other kinds.
	Aspects Aspect

	// Below is how many objects are in a directory that was deleted, or replaced by something else. They are not
	// changes of their own.
	Below int

	// Special says why the object is committed only with CommitOptions.AllowSpecial, such as "is setuid". Empty: it
	// is not special.
	Special string

	// Runs says why the object would later be executed or obeyed although nobody runs the project's code: "git
	// hook", "direnv". It is Protected for paths that Options.Protect names, and for what removes or replaces
	// a root's own repository of git. Empty: neither.
	Runs string

	// Links is how many names a new regular file has. Zero and one: only this name.
	Links uint64

	// Sparse says that a regular file has holes.
	Sparse bool
}

// Later says in a few words why Runs holds the change back: "runs later: git hook", or "protected". Empty: Runs does
// not.
func (c Change) Later() string {
	if c.Runs == "" || c.Runs == Protected {
		return c.Runs
	}
	return "runs later: " + c.Runs
}

// String returns one line such as "M package.json", "A node_modules/" or "D old.txt". A name with control characters,
// or anything else that could be mistaken on a terminal, is written as a quoted Go string.
func (c Change) String() string {
	path := c.Path
	if c.Mode.IsDir() {
		path += "/"
	}
	return string(c.Kind.Letter()) + " " + escape.Quote(path)
}
