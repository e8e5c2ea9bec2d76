package nsrun

import (
	"context"

	"github.com/nsrun/nsrun/overlay"
)

// A Recorder is told what commands did, and what happened to their changes. Its methods may be called from several
// goroutines. If it, or a Config's Permissions, has a method Private() []string, the method returns directories
// (absolute paths) that are hidden from commands, as those of a Registry are.
type Recorder interface {
	// Record is called when a command has ended, before its changes are committed, so that the old versions can
	// still be copied: with an overlay the roots hold them. If it returns an error, Run returns that error, and
	// nothing is committed. It is also called for commands that were denied; its error is then a Notice.
	Record(ctx context.Context, rec Record) error

	// Committed is called when some or all changes of a session are in the project, and Discarded when a session
	// was discarded. Their errors are Notices.
	Committed(ctx context.Context, s *overlay.Session) error
	Discarded(ctx context.Context, session string) error
}

// Record is one command that has ended.
type Record struct {
	Config  *Config
	Request *Request
	Args    []string // what was, or would have been, executed
	Dir     string   // where
	// Result has all but State, which is not known yet. Backups, Execution and Notices are the Recorder's to set.
	Result *Result
	// Session holds the changes. Nil: there was no overlay, or no command.
	Session *overlay.Session
}
