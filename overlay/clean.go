package overlay

import "time"

// Retention is how long a session that has ended stays unless CleanOptions say
// otherwise: for so long a commit can be taken back.
const Retention = 7 * 24 * time.Hour

// CleanOptions say what Clean removes. The zero value stands for what nobody misses:
// sessions that ended longer ago than Retention, and what killed processes left.
type CleanOptions struct {
	// Sessions are the ones to remove, named as for Open, whatever their age and
	// state: the changes of one that is Kept are lost. None: as the other fields say.
	Sessions []string

	// Ended is how long ago a session must have been committed or discarded. Zero:
	// Retention. Negative: at any time.
	Ended time.Duration

	// Kept is how long ago a session that is still Kept must have been used last. Its
	// changes are lost. Zero: these are not removed. Negative: at any time.
	Kept time.Duration

	// KeepCommitted leaves sessions alone that were committed, so that they can be
	// taken back. False: they are like those that were discarded.
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

	// State is what had become of the session. Kept for one whose data could not be
	// read, and for what is not a session.
	State State
}
