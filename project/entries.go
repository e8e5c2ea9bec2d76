package project

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"
)

// An Execution is one command that was run: a line of the audit log.
type Execution struct {
	// ID names it. Empty: Record makes one.
	ID string

	Session string   // empty: none
	Command []string // its words
	Dir     string   // where it ran
	Roots   []string // of the projects

	Began, Ended time.Time
	ExitCode     int
	Signal       string // that ended it; empty: none
	TimedOut     bool
	Denied       []string // what it was refused, or, if it was not run, why

	Network string // "none", "host", or what else the caller calls it
	Backend string
	Engine  string

	// State is what happened to its changes: "kept", "committed", "discarded".
	State string

	// Changes are the first of its changes, and More is the number of the others.
	Changes []Change
	More    int
}

// The states that this package writes itself.
const (
	StateKept      = "kept"
	StateCommitted = "committed"
	StatePart      = "committed in part"
	StateDiscarded = "discarded"
)

// A Filter selects executions. The zero Filter selects all.
type Filter struct {
	// ID is an execution's id, its end or the beginning of its random part (at least four characters), or "last".
	ID string

	Session string // whose executions; empty: any
	Path    string // absolute: those that changed what is at or below it; empty: any
	Most    int    // how many; zero: all
}

// A File is a registered file.
type File struct {
	ID      int64  // greater than zero, for ever the same
	Path    string // absolute
	Project string // the root through which it was registered

	// LastModified is the file's time of modification when the registry last looked. Zero: it never did.
	LastModified time.Time

	// LastApprovedCopyPath is the path of its newest backup. Empty: there is none.
	LastApprovedCopyPath string

	// Deleted says that the file was deleted. The record stays until its backups are gone.
	Deleted bool

	Mode    fs.FileMode // when it was looked at last
	Backups []Backup    // the newest first
}

// A Backup is a copy of a file as it was before its first change on one day.
type Backup struct {
	Path string // of the file, absolute
	Copy string // of the backup, absolute
	Date string // YY-MM-DD, of the local time zone
	Size int64  // bytes
	Mode fs.FileMode

	// Execution is the one that changed the file. Empty: unknown.
	Execution string

	// Made says that this call of Record made the backup. False: it existed already.
	Made bool

	owner *ownerRecord
}

// A Root is a known project.
type Root struct {
	Path    string
	Seen    time.Time // the first time
	Scanned time.Time // the last time; zero: never
}

// A Version is a copy of a file that can be restored.
type Version struct {
	Path string // of the file, absolute
	Copy string // where the copy is, absolute
	Size int64  // bytes
	Mode fs.FileMode

	// Date is the day on which the file was changed, YY-MM-DD. Time is exact, and zero if it is not known.
	Date string
	Time time.Time

	// Execution is the one that changed the file. Empty: unknown.
	Execution string

	// Before says that this is the version before that execution. False: it is the backup of its day.
	Before bool

	owner *ownerRecord
	still bool // saved for a restoration, and the file is still the same: nothing was restored
}

// Restored says what Restore did.
type Restored struct {
	Path string

	// Execution is the id of the restoration in the log. What was there before is its version before the change.
	Execution string

	// Saved is the path of that version. Empty: nothing was there.
	Saved string

	// Done says that the file is at Path. With an error it may not be on disk, or the log may lack it.
	Done bool
}

// Recorded says what Record did.
type Recorded struct {
	ID string // of the execution

	// Backups are the backups of today's originals of the changed files, in the order of the changes. Made marks
	// new ones.
	Backups []Backup

	// Omitted are files that have no backup or before-version because of a limit.
	Omitted []Omitted
}

// Omitted is a file without a backup or a before-version.
type Omitted struct {
	Path string // absolute
	What string // "backup" or "before-version"
	Why  error
}

// omittedFields are the fields of an Omitted as JSON has them.
type omittedFields struct {
	Path, What string
	Why        string `json:",omitempty"`
}

// MarshalJSON returns all fields, Why by its text; that is omitted if it is nil.
func (o Omitted) MarshalJSON() ([]byte, error) {
	out := omittedFields{Path: o.Path, What: o.What}
	if o.Why != nil {
		out.Why = o.Why.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON has written. Of Why it has only the text.
func (o *Omitted) UnmarshalJSON(data []byte) error {
	in := omittedFields{Path: o.Path, What: o.What}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*o = Omitted{Path: in.Path, What: in.What}
	if in.Why != "" {
		o.Why = errors.New(in.Why)
	}
	return nil
}

// Cleaned says what Clean removed.
type Cleaned struct {
	Backups    int   // copies of files
	Befores    int   // executions whose before-versions were removed
	Files      int   // records of deleted files
	Executions int   // lines of the audit log
	Size       int64 // bytes that the copies had
}

type ownerRecord struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}
