package plan

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/escape"
)

// Error says what could not be done, with which path, and why.
type Error struct {
	Op   string
	Path string // empty: none
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

// OpUse begins the errors about folders.
const OpUse = "use as project"

// OpDevice begins the errors about devices.
const OpDevice = "allow device"

type RuleError struct {
	Asked bool // it is one of Request.Paths, else of Config.Rules
	Index int
	Err   error
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: %s", e.Index+1, e.Err) }

func (e *RuleError) Unwrap() error { return e.Err }

// A MountError is a folder with another file system in it, which no overlay takes.
type MountError struct{ Folder, Below string }

func (e *MountError) Error() string {
	return fmt.Sprintf("project %s has another file system mounted at %s: an overlay cannot hold it", escape.Quote(e.Folder), escape.Quote(e.Below))
}

var (
	// ErrNotAbsolute says that a path is relative to a directory that nobody has named.
	ErrNotAbsolute = errors.New("path is not absolute")
	// ErrNoHome says that there is no place for what is kept for the caller.
	ErrNoHome = errors.New("there is no home directory")
	// ErrPrivate says that a path is in a directory of the sandbox's own.
	ErrPrivate = errors.New("the sandbox has its own, which has no path on the host")
	// ErrHidden is about rules that would show what is hidden, and do not say so.
	ErrHidden = errors.New("it is a symbolic link to a hidden path: name that path instead")
)
