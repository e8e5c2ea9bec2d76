package fanotify

import (
	"errors"
	"time"
)

// An Op is what happened to a path.
type Op uint8

// The operations. The zero Op is that of the zero Event: nothing happened.
const (
	// Created: the path exists now and did not before, or was another file.
	Created Op = 1 + iota
	// Written: the content may have changed. For a directory, only after an overflow or if it is new: names in it
	// may have come and gone that are not reported one by one.
	Written
	// Removed: the path no longer exists.
	Removed
	// Renamed: what was at From is at Path now, with everything below it. What was at Path before no longer exists.
	Renamed
	// Attributes: mode, owner, times, extended attributes or the number of links changed.
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

// MarshalText returns what String does, so that JSON has the word.
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

// An Event is one change. Paths are relative to Root, with slashes, and do not begin with "./"; "." is the root itself.
// They have the bytes that the file system has: they need not be UTF-8, and can have control characters.
type Event struct {
	Op   Op
	Root string // as it is in Options.Roots
	Path string
	From string // of Renamed: what Path was before
	Dir  bool   // a directory; false too where it was gone before anybody could look

	// PID is the process that made the change, as our PID namespace numbers it. 0: unknown, because the engine is
	// Inotify, or the change was found by looking.
	PID int

	// Time is when the event was read, shortly after it happened.
	Time time.Time
}
