package overlay

import "time"

// A Preference says what a commit does if both the session and somebody outside it changed an
// object. The zero Preference is Refuse.
type Preference uint8

// What to do about conflicts.
const (
	Refuse Preference = iota // a *ConflictError, and nothing is done
	Theirs                   // the session's version; the project's is backed up
	Ours                     // the project's version; the session's change is dropped
	Merge                    // both, for text that was kept by Preserve; Refuse where that does not work out, see Conflict.Unmerged
)

// CommitOptions say what to commit, and how. The zero value commits all changes but
// special ones, and refuses conflicts.
type CommitOptions struct {
	// Paths are what to commit: everything at and below each, absolute or relative to a root. They
	// may be patterns (*, ?, [a-z], and ** for any number of directories). If nothing changed at
	// one of them, the error is ErrNoChange. Nil: everything.
	Paths []string

	// Exclude are paths or patterns that are not committed, whatever Paths says. One
	// without a slash stands for objects of that name in any directory.
	Exclude []string

	// Prefer decides conflicts. Zero: Refuse.
	Prefer Preference

	// Choices decide conflicts at some paths in another way. If several match a path, the last one decides. If one
	// matches neither a change nor a conflict, the error is ErrNoChange. Nil: Prefer decides all.
	Choices []Choice

	// AllowSpecial also commits setuid and setgid files, files with capabilities, device nodes, and
	// new FIFOs and sockets. False: the error is a *SpecialError, and nothing is done.
	AllowSpecial bool

	// HoldSpecial holds each of these back, like files that run later, whether it is named or not.
	// It is for commits of everything. False: see AllowSpecial.
	HoldSpecial bool

	// AllowExec also commits files that run later (Change.Runs). False: they are held back, and stay in the
	// session, except those that Paths names exactly, not by a pattern or a directory above.
	AllowExec bool

	// AllowUnsynced also commits a session of which files may be cut off. False: the error is ErrUnsynced.
	AllowUnsynced bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)

	// Waiting is called once, with the process of the other commit, if the commit has waited for a second because
	// another one changes the project. That may take any time: somebody can have stopped it. The context and Wait end
	// the wait. Nil: it is not called.
	Waiting func(Holder)

	// Wait is how long the commit waits for another one, but at least a second. After that the error is a *WaitError,
	// and nothing is done. Zero: any time.
	Wait time.Duration
}

// UndoOptions say how to undo a commit. The zero value refuses conflicts.
type UndoOptions struct {
	// Force takes it back even if the project was changed since; the project's present versions are
	// kept in the session's backup. False: the error is a *ConflictError.
	Force bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)
}

// A Choice decides the conflicts at a path, and below it.
type Choice struct {
	Path   string // absolute or relative to a root; it may be a pattern, see CommitOptions.Paths
	Prefer Preference
}
