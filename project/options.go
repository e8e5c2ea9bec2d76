package project

import "time"

// Options say where a registry is and what it keeps. The zero value is the user's own registry, with the limits named
// here.
type Options struct {
	// Dir holds the database. Empty: $XDG_STATE_HOME/nsrun, or ~/.local/state/nsrun.
	Dir string

	// Cache holds backups and before-versions, in "edited" and "temp-files". Empty:
	// $XDG_CACHE_HOME/nsrun, or ~/.cache/nsrun.
	Cache string

	// Retention is how long backups and before-versions are kept. Zero: 7 days.
	Retention time.Duration

	// LogRetention is how long executions stay in the audit log, and LogMost how many of them. Zero: 90 days, and
	// 20,000.
	LogRetention time.Duration
	LogMost      int

	// BackupFile is the largest size of a file that is backed up, in bytes. Zero: 1 GiB. Larger files are in
	// Recorded.Omitted.
	BackupFile int64

	// BeforeFile and BeforeAll are the largest size of one before-version, and of all before-versions of an
	// execution, in bytes. Zero: 16 MiB and 64 MiB. What is left out is in Recorded.Omitted.
	BeforeFile, BeforeAll int64

	// Changes is how many changes of an execution are listed in the log and have before-versions; the others are
	// counted. Zero: 1000.
	Changes int

	// Wait is how long to wait for another process that has locked the database. Zero: 10 seconds.
	Wait time.Duration
}
