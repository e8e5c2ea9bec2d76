package fanotify

import (
	"errors"
	"time"
)

// An Op is what happened to a path.
type Op uint8

// The operations. The zero Op is that of the zero Event: nothing happened.
const (
	// Created: the path is there now and was not before, or had another file.
	Created Op = 1 + iota
	// Written: the content may be another one. Of a directory: names in it may have come
	// and gone that are not told one by one; only after an overflow, and where it is new.
	Written
	// Removed: the path is not there any more.
	Removed
	// Renamed: what was at From is at Path now, with all that is below it. What was at
	// Path before is gone.
	Renamed
	// Attributes: mode, owner, times, extended attributes or the number of links.
	Attributes
)

var opNames = [...]string{"none", "created", "written", "removed", "renamed", "attributes"}

// String returns "created", "written", "removed", "renamed" or "attributes".
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// MarshalText returns what String does, so that JSON holds the word.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (o *Op) UnmarshalText(b []byte) error {
	for i, name := range opNames {
		if name == string(b) {
			*o = Op(i)
			return nil
		}
	}
	return errors.New("no such operation: " + string(b))
}

// An Event is one thing that happened. Paths are relative to Root, with slashes, never
// with a dot in front; "." is the root itself. They are bytes as the file system has
// them, whatever somebody wrote there.
type Event struct {
	Op   Op
	Root string // as it is in Options.Roots
	Path string
	From string // of Renamed: what Path was before
	Dir  bool   // a directory; false too where it was gone before anybody could look

	// PID is the process that did it, as our PID namespace numbers it. 0: unknown; the
	// engine is Inotify, or it was found by looking.
	PID int

	// Time is when it was read, not long after it happened.
	Time time.Time
}
