package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An Error says which step failed on which file, and why. Err keeps the errno,
// so that errors.Is(err, fs.ErrPermission) and the like work.
type Error struct {
	Op   string // the step, such as "open" or "copy"
	Path string // the file, as an absolute path where there is one
	Err  error
}

func (e *Error) Error() string {
	s := escape.Failure(e.Op, e.Path, e.Err.Error())
	// Here the texts of these two errors alone would not help.
	_, said := errors.AsType[*Error](e.Err)
	switch {
	case said:
	case errors.Is(e.Err, syscall.ELOOP):
		s += " (a symbolic link is where a directory or file was expected)"
	case errors.Is(e.Err, syscall.EXDEV):
		s += " (something is mounted inside the root)"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// An OwnerError says that you may not give the new version of a file the owner or group of the old one. Only root may
// give a file away, and others may give it to their own groups.
type OwnerError struct {
	UID, GID uint32
	Group    bool // only the group is the reason
	Err      error
}

func (e *OwnerError) Error() string {
	if e.Group {
		return fmt.Sprintf("it belongs to group %d, and you are not in that group: %v", e.GID, e.Err)
	}
	return fmt.Sprintf("it belongs to user %d and group %d: %v", e.UID, e.GID, e.Err)
}

func (e *OwnerError) Unwrap() error { return e.Err }

// The steps that ErrRoot, ErrNoSession and ErrStateDir are about.
const (
	opUse       = "use as project"
	opOpen      = "open session"
	opBuild     = "build on session"
	opRemove    = "remove session"
	opFindState = "find state directory"
	opOpenState = "open state directory"
	opMake      = "make session directory"
	opUpper     = "make upper directory"
	opStore     = "store" // of package tree, too
)

// Is makes errors.Is true for ErrRoot, ErrNoSession and ErrStateDir.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRoot:
		return e.Op == opUse
	case ErrNoSession:
		return (e.Op == opOpen || e.Op == opBuild || e.Op == opRemove) && errors.Is(e.Err, fs.ErrNotExist)
	case ErrStateDir:
		full := errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT)
		return e.Op == opFindState || e.Op == opOpenState || e.Op == opMake || full && (e.Op == opUpper || e.Op == opStore)
	}
	return false
}

var (
	// ErrRoot is what Create and Resume return for a directory that cannot be a root.
	ErrRoot = errors.New("this directory cannot be a root of a session")

	// ErrNoSession is what opening, removing or building on a session that does not exist returns.
	ErrNoSession = errors.New("no such session")

	// ErrStateDir is returned if there is no place for the state directory (then the Error has no Path), if it cannot be
	// opened, if no session can be made in it, or if its disk is too full for the changes of one.
	ErrStateDir = errors.New("no state directory")

	// ErrBusy is what opening a session wraps when somebody else holds it.
	ErrBusy = store.ErrBusy

	// ErrEnded is wrapped if a session has no more changes, because they were committed or discarded.
	ErrEnded = errors.New("the session's changes were committed or discarded already")

	// ErrReadOnly is what Commit and Discard wrap for a session that was opened with OpenReadOnly.
	ErrReadOnly = errors.New("the session was opened for reading only")

	// ErrNoChange is what Commit wraps if nothing changed at a path.
	ErrNoChange = errors.New("no change at this path")

	// ErrOverlap says that two versions cannot be merged, because both changed the same lines.
	ErrOverlap = errors.New("both changed the same lines")

	// ErrNoBase says that two versions cannot be merged, because their common base was not kept, see Preserve.
	ErrNoBase = errors.New("the common base version was not kept")

	// ErrNotText says that two versions cannot be merged, because one is not text, or is too large.
	ErrNotText = errors.New("one side is not text, or is too large")

	// ErrBuiltOn is wrapped if other sessions are based on this one, and still have changes: it cannot be written
	// to, discarded or removed.
	ErrBuiltOn = errors.New("other sessions build on it")

	// ErrBaseKept is wrapped if a session is to be committed, and the session that it is based on is not committed
	// yet.
	ErrBaseKept = errors.New("commit that first")

	// ErrUnsynced is wrapped by Commit if the machine was restarted, perhaps by a power failure, before the session was
	// on disk (Close): files in it may be cut off or empty. See CommitOptions.AllowUnsynced.
	ErrUnsynced = errors.New("the machine was restarted before the session was on disk; files in it may be cut off")

	// ErrLost is wrapped by List if a session's data is missing or damaged, as it can be after a power failure. Such a
	// session can only be removed.
	ErrLost = errors.New("the session's data is missing or damaged")

	// ErrNumbers is wrapped by Commit if the project is on a file system that gives what is renamed another inode number.
	// Nothing was done.
	ErrNumbers = tree.ErrNumbers

	// ErrTimes is wrapped by Commit if the project is on a file system that changes the modification time of a file that
	// is renamed. Nothing was done.
	ErrTimes = tree.ErrTimes

	// ErrNoLinks is wrapped by Commit if the session has a symbolic link, and the project is on a file system that has
	// none. Nothing was done.
	ErrNoLinks = tree.ErrNoLinks

	// ErrMoved is wrapped if somebody replaced an object while it was being read.
	ErrMoved = tree.ErrMoved
)

// A Conflict is one path that both the session and somebody outside it changed.
type Conflict struct {
	Root string // the root, absolute
	Path string // relative to Root
	Why  string

	// Kind is what the session did to the object, or, if the conflict is about something else in a directory that
	// the session removed, to that directory.
	Kind Kind

	// Session and Project are the two versions that there are now.
	Session, Project Version

	// Index is the path of git's index, relative to Root, in which both sides staged Path differently. Empty: the
	// conflict is about the object itself.
	Index string

	// Unmerged is why Prefer: Merge could not merge the two: ErrOverlap, ErrNoBase, ErrNotText or another error, such
	// as that the merged text would run later, unless CommitOptions.AllowExec is set.
	// Session.Overlaps tells more. Nil: no merge was asked for.
	Unmerged error
}

// conflictFields are the fields of a Conflict as JSON has them.
type conflictFields struct {
	plainConflict
	Unmerged string `json:",omitempty"`
}

type plainConflict Conflict

// MarshalJSON returns all fields, Unmerged by its text; that is omitted if it is nil.
func (c Conflict) MarshalJSON() ([]byte, error) {
	out := conflictFields{plainConflict: plainConflict(c)}
	if c.Unmerged != nil {
		out.Unmerged = c.Unmerged.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON has written. Unmerged is one of this package's errors if it has the text of one.
func (c *Conflict) UnmarshalJSON(data []byte) error {
	in := conflictFields{plainConflict: plainConflict(*c)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*c = Conflict(in.plainConflict)
	if c.Unmerged = nil; in.Unmerged == "" {
		return nil
	}
	c.Unmerged = errors.New(in.Unmerged)
	for _, known := range [...]error{ErrOverlap, ErrNoBase, ErrNotText} {
		if known.Error() == in.Unmerged {
			c.Unmerged = known
		}
	}
	return nil
}

// A Version is one side of a conflict. The zero Version means that nothing is there.
type Version struct {
	Exists  bool
	Mode    fs.FileMode
	Size    int64 // of a regular file, in bytes
	ModTime time.Time
}

// ConflictError lists the paths that the project's owner changed since the session began. Nothing was committed.
type ConflictError struct {
	Conflicts []Conflict // in path order, never empty
}

func (e *ConflictError) Error() string {
	list := make([]string, len(e.Conflicts))
	for i, c := range e.Conflicts {
		list[i] = escape.Quote(c.Path) + " " + c.Why
		if c.Unmerged != nil {
			list[i] += " and cannot be merged: " + c.Unmerged.Error()
		}
	}
	return "conflict: " + store.ShortList(list)
}

// A Special is one object that is committed only with CommitOptions.AllowSpecial.
type Special struct {
	Root string // the root, absolute
	Path string // relative to Root
	Mode fs.FileMode
	Why  string
}

// SpecialError lists the setuid and setgid files, files with capabilities, device
// nodes, FIFOs and sockets that a commit would have had to make. Nothing was committed.
type SpecialError struct {
	Specials []Special // in path order, never empty
}

func (e *SpecialError) Error() string {
	list := make([]string, len(e.Specials))
	for i, s := range e.Specials {
		list[i] = escape.Quote(s.Path) + " " + s.Why
	}
	return "not committed: " + store.ShortList(list)
}

// HeldError lists the changes that a commit held back, if it would have committed nothing else: those that run later
// (Change.Runs), and with CommitOptions.HoldSpecial the special ones. Nothing was committed.
type HeldError struct {
	Changes []Change // in path order, never empty
}

func (e *HeldError) Error() string {
	list := make([]string, len(e.Changes))
	exec, special := false, false
	for i, c := range e.Changes {
		list[i] = escape.Quote(c.Path) + " (" + heldWhy(c) + ")"
		exec, special = exec || c.Runs != "", special || c.Special != ""
	}
	option := "AllowExec commits"
	switch {
	case exec && special:
		option = "AllowExec and AllowSpecial commit"
	case special:
		option = "AllowSpecial commits"
	}
	what := " them"
	if len(list) == 1 {
		what = " it"
	}
	return "held back: " + store.ShortList(list) + "; " + option + what
}

// heldWhy says why a change is held back.
func heldWhy(c Change) string {
	why := c.Special
	if c.Runs != "" {
		why = strings.TrimPrefix(why+", "+c.Later(), ", ")
	}
	return why
}

// CommitError is returned by a commit that stopped after it had changed the project and could not be rolled back
// completely, or that succeeded but failed to clean up. Undo returns it in the same cases. If a commit fails with any
// other error, it has changed nothing.
type CommitError struct {
	Applied []Change // of a commit: what is in the project now, or can be if the rollback failed, in path order
	Err     error
	perhaps bool // the rollback failed
	undone  bool // of an undo: it was done
}

func (e *CommitError) Error() string {
	switch {
	case e.undone:
		return e.Err.Error() + "; the commit was taken back"
	case len(e.Applied) == 0 && e.perhaps:
		return e.Err.Error() + "; a part of the commit can be taken back until the next command completes it again"
	case len(e.Applied) == 0:
		return e.Err.Error()
	}
	list := make([]string, len(e.Applied))
	for i, c := range e.Applied {
		list[i] = c.String()
	}
	what := "; in the project already: "
	if e.perhaps {
		what = "; some of this can be in the project until the next command takes it back: "
	}
	return e.Err.Error() + what + store.ShortList(list)
}

func (e *CommitError) Unwrap() error { return e.Err }

// Done reports whether a commit, an undo, a drop or a discard was done although it returned err: then err is about what
// comes after it, as the wait until it is on disk.
func Done(err error) bool {
	if c, ok := errors.AsType[*CommitError](err); ok {
		return !c.perhaps
	}
	_, ok := errors.AsType[*doneError](err)
	return ok
}

// A doneError is an error of what was done; what says that.
type doneError struct {
	err  error
	what string
}

func (e *doneError) Error() string { return e.err.Error() + "; " + e.what }
func (e *doneError) Unwrap() error { return e.err }

// ErrNoCommit is what Undo wraps if there is nothing to take back.
var ErrNoCommit = errors.New("nothing to take back")

// ErrLeftOut is what Commit wraps if it would commit git's index, but not all objects that the index names.
var ErrLeftOut = errors.New("it names git objects that the commit leaves out")
