package overlay

// A Preference says what a commit does where both the session and somebody outside
// it changed an object. The zero Preference is to do nothing at all and tell.
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
	// Paths are what to commit: everything at and below each, absolute or relative to
	// a root. They may be patterns (*, ?, [a-z], and ** for any number of
	// directories). One that nothing changed at is ErrNoChange. None: everything.
	Paths []string

	// Exclude are paths or patterns that are not committed, whatever Paths says. One
	// without a slash stands for objects of that name in any directory.
	Exclude []string

	// Prefer decides conflicts. Zero: Refuse.
	Prefer Preference

	// Choices decide conflicts at some paths in another way. Where several mean a path the last one
	// does. One that means neither a change nor a conflict is ErrNoChange.
	Choices []Choice

	// AllowSpecial commits setuid and setgid files, files with capabilities, device
	// nodes, and new FIFOs and sockets too. False: they are a *SpecialError, and nothing is done.
	AllowSpecial bool

	// HoldSpecial holds such back one by one, as what runs later is, whether they are
	// named or not: it is for commits that nobody looks at. False: see AllowSpecial.
	HoldSpecial bool

	// AllowExec commits what runs later (Change.Runs) too. False: it is held back, and stays
	// in the session, but for objects that Paths names, not by a pattern or a directory above.
	AllowExec bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)
}

// Progress is how far a commit has come.
type Progress struct {
	Done, Total int   // objects
	Bytes       int64 // that were copied
}

// UndoOptions say how to take a commit back. The zero value refuses conflicts.
type UndoOptions struct {
	// Force takes it back even where the project was changed since; what is in the
	// project now is kept in the session's backup. False: a *ConflictError.
	Force bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)
}

// A Choice decides the conflicts at a path, and below it.
type Choice struct {
	Path   string // absolute or relative to a root; it may be a pattern, see CommitOptions.Paths
	Prefer Preference
}
