package project

import (
	"io/fs"
	"path/filepath"

	"github.com/nsrun/nsrun/change"
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

// A Change is one object of a project that a command changed.
type Change struct {
	Kind Kind
	Root string // of the project, absolute
	Path string // relative to Root

	// Mode and OldMode are type and permissions after and before. Zero: there is nothing on that side, or a regular
	// file without any permission; Kind tells which.
	Mode, OldMode fs.FileMode

	// Size and OldSize are the lengths of regular files, in bytes.
	Size, OldSize int64

	// Before is the absolute path of the version before the change. Record sets it, and ignores its value. Empty:
	// none is kept.
	Before string

	// Dropped says that the change was dropped later, see Registry.Dropped. Record ignores it.
	Dropped bool

	// Runs says why the change would run later, see overlay.Change. Empty: it would not.
	Runs string
}

// Name is the absolute path of the changed object.
func (c Change) Name() string { return filepath.Join(c.Root, c.Path) }
