package project

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
)

// A Kind says how an object differs from the project's. The zero Kind is invalid.
type Kind uint8

// The kinds of change.
const (
	Added       Kind = iota + 1 // nothing is there in the project
	Modified                    // other content, mode, owner or attributes
	Deleted                     // the project has it, the session does not
	TypeChanged                 // a file became a directory, a link a file, and so on
)

var kindNames = [...]string{Added: "added", Modified: "modified", Deleted: "deleted", TypeChanged: "type"}

func (k Kind) known() bool { return k > 0 && int(k) < len(kindNames) }

// String returns "added", "modified", "deleted" or "type".
func (k Kind) String() string {
	if !k.known() {
		return "kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}

// Letter returns 'A', 'M', 'D' or 'T', and '?' for an invalid kind.
func (k Kind) Letter() byte {
	if !k.known() {
		return '?'
	}
	return "?AMDT"[k]
}

// MarshalText returns what String does, so that JSON has the name; for the zero Kind it is empty.
func (k Kind) MarshalText() ([]byte, error) {
	if k == 0 {
		return nil, nil
	}
	return []byte(k.String()), nil
}

// UnmarshalText reads the name of a kind, or nothing.
func (k *Kind) UnmarshalText(data []byte) error {
	for i, name := range kindNames {
		if name == string(data) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("no such kind of change: %q", data)
}

// A Change is one object of a project that a command changed.
type Change struct {
	Kind Kind
	Root string // of the project, absolute
	Path string // relative to Root

	// Mode and OldMode are type and permissions after and before. Zero: there is nothing on that side. A regular file
	// that nobody may read is taken for one that somebody may.
	Mode, OldMode fs.FileMode

	// Size and OldSize are the lengths of regular files, in bytes.
	Size, OldSize int64

	// Before is the absolute path of the version before the change. Empty: none is kept. Record sets it, and does not
	// read it.
	Before string

	// Dropped says that the change was thrown away later, see Registry.Dropped. Record does not read it.
	Dropped bool

	// Runs says why the change would run later, see overlay.Change. Empty: it would not.
	Runs string
}

// Name is the absolute path of the changed object.
func (c Change) Name() string { return filepath.Join(c.Root, c.Path) }
