package overlay

import "time"

// Retention is how long a committed or discarded session stays, and can be undone, unless CleanOptions say otherwise.
const Retention = 7 * 24 * time.Hour

// CleanOptions say what Clean removes. The zero value removes what nobody misses: sessions that
// ended longer ago than Retention, and files that killed processes left.
type CleanOptions struct {
	// Sessions are the sessions to remove, named as for Open, whatever their age and state: the
	// changes of a Kept session are lost. Nil: the other fields decide.
	Sessions []string

	// Ended is how long ago a session must have been committed or discarded. Zero:
	// Retention. Negative: at any time.
	Ended time.Duration

	// Kept is how long ago a Kept session must have been used last. Its changes are lost. Zero:
	// Kept sessions are not removed. Negative: at any time.
	Kept time.Duration

	// KeepCommitted does not remove committed sessions, so that they can be undone. False: they are
	// treated like discarded ones.
	KeepCommitted bool

	// DryRun yields what would be removed, and removes nothing.
	DryRun bool
}

// Cleaned is something that Clean removed.
type Cleaned struct {
	ID   string    // of a session; empty: what a killed process left behind
	Dir  string    // the directory that was removed
	Size int64     // how many bytes it took on disk
	Last time.Time // when the session ended, or was used last

	// State is the state that the session had. It is Kept for a session whose data could not be
	// read, and for something that is not a session.
	State State
}
