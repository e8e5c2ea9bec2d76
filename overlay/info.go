package overlay

import (
	"time"
)

// Info describes a session.
type Info struct {
	ID      string
	Dir     string // the session's directory
	Created time.Time
	Command []string // nil: unknown
	State   State    // zero: Kept
	Roots   []Root
	Busy    bool   // somebody holds the session open
	On      string // the session that it was begun on; empty: none
	Engine  Engine

	// Commits is how many commits Undo can take back.
	Commits int

	// Undo is what Session.Undo takes back next, and Decided when that was done. Zero: there is
	// nothing.
	Undo    Deed
	Decided time.Time

	// Interrupted says that something was begun with the session, and could be neither
	// finished nor taken back: Recover tells why.
	Interrupted bool
}

// Access is who owns one version of an object, and what else is attached to it.
type Access struct {
	UID, GID uint32

	// Attributes are those extended attributes that belong to the project, access
	// control lists among them. Nil: there are none.
	Attributes map[string]string
}

// A Rename is something that was deleted, and that was added under another name. It is a
// guess, for people: what is equal may have been copied, or written anew.
type Rename struct {
	Root       string // the root, absolute
	From, To   string // relative to Root
	Directory  bool   // it is one, with all that is in it
	Similarity int    // how much is equal, in percent
}

// Written is what commands have written to a session, and to what lies over caches, so far.
type Written struct {
	Bytes int64 // as du(1) counts them
	Files int64 // files of all kinds, directories too
	// Partial says that something was not counted: directories that cannot be listed, that went away meanwhile, or that lie too
	// deep. False for EngineTmpfs, whose file system counts.
	Partial bool
	// UsedBytes and UsedFiles are what everybody together has on the file system that holds it.
	UsedBytes, UsedFiles int64
}

// A Side is one of the two versions of what changed. The zero Side is none.
type Side uint8

// The two sides of a change.
const (
	Before Side = iota + 1 // what the project has
	After                  // what the session made of it
)
