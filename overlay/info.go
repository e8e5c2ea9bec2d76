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

	// Undo is what Session.Undo takes back next, and Decided is when that was done. Zero: there is nothing.
	Undo    Deed
	Decided time.Time

	// Unsynced says that files in it may be cut off, see ErrUnsynced.
	Unsynced bool

	// Interrupted says that an operation on the session was interrupted, and could be neither finished nor rolled
	// back: Recover says why.
	Interrupted bool
}

// Access is the owner and the extended attributes of one version of an object.
type Access struct {
	UID, GID uint32

	// Attributes are the extended attributes that belong to the project, including access control lists (xattr(7)).
	// Nil: there are none.
	Attributes map[string]string
}

// A Rename is an object that was deleted and added under another name. It is a guess, for people: an equal object may
// have been copied, or written anew.
type Rename struct {
	Root       string // the root, absolute
	From, To   string // relative to Root
	Directory  bool   // it is one, with all that is in it
	Similarity int    // how much is equal, in percent
}

// Written is what commands have written so far to a session, and to the overlays over caches.
type Written struct {
	Bytes int64 // as du(1) counts them
	Files int64 // files of all kinds, directories too
	// Partial says that something was not counted: directories that cannot be listed, that were removed meanwhile,
	// or that are nested too deeply. It is false for EngineTmpfs, whose file system counts.
	Partial bool
	// UsedBytes and UsedFiles are what everybody together uses on the file system that holds the session
	// (statfs(2)).
	UsedBytes, UsedFiles int64
}

// A Side is one of the two versions of a changed object. The zero Side is invalid.
type Side uint8

// The two sides of a change.
const (
	Before Side = iota + 1 // what the project has
	After                  // what the session made of it
)
