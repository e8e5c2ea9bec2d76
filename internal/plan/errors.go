package plan

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/escape"
)

// Error is a failed operation on a path.
type Error struct {
	Op   string
	Path string // empty: none
	Err  error
}

func (e *Error) Error() string { return escape.Failure(e.Op, e.Path, e.Err.Error()) }

func (e *Error) Unwrap() error { return e.Err }

const OpUse = "use as project"

const OpDevice = "allow device"

type RuleError struct {
	Asked bool // it is one of Request.Paths, else of Config.Rules
	Index int
	Err   error
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: %s", e.Index+1, e.Err) }

func (e *RuleError) Unwrap() error { return e.Err }

// A MountError is about a folder that contains another mount, over which no overlay can be mounted.
type MountError struct{ Folder, Below string }

func (e *MountError) Error() string {
	return fmt.Sprintf("project %s has another file system mounted at %s: an overlay cannot hold it", escape.Quote(e.Folder), escape.Quote(e.Below))
}

var (
	ErrNotAbsolute = errors.New("path is not absolute")
	ErrNoHome      = errors.New("there is no home directory")
	// ErrPrivate is about paths in a directory that the sandbox has of its own.
	ErrPrivate = errors.New("the sandbox has its own, which has no path on the host")
	// ErrHidden is about rules that would show a hidden path through a link.
	ErrHidden = errors.New("it is a symbolic link to a hidden path: name that path instead")
)
