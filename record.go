package nsrun

import (
	"context"

	"github.com/nsrun/nsrun/overlay"
)

// A Recorder is told what commands did, and what became of that. It may be called from
// several goroutines. Where it, or a Config's Permissions, has a method Private() []string, these are directories
// (absolute paths) that commands see nothing of, as those of a Registry are.
type Recorder interface {
	// Record is told of a command when it has ended, and before its changes are
	// committed, so that what they replace can still be had: with an overlay the roots hold
	// the versions from before. An error is what Run returns, and then nothing is
	// committed. It is told of commands that were denied, too, where the error is a Notice.
	Record(ctx context.Context, rec Record) error

	// Committed is told that changes of a session are in the project now, all or some,
	// and Discarded that those of a session that is no more never will be. What fails is a
	// Notice.
	Committed(ctx context.Context, s *overlay.Session) error
	Discarded(ctx context.Context, session string) error
}

// Record is one command that has ended.
type Record struct {
	Config  *Config
	Request *Request
	Args    []string // what was, or would have been, executed
	Dir     string   // where
	// Result has all but State, which is not known yet. Backups, Execution and Notices are
	// the Recorder's to set.
	Result *Result
	// Session holds the changes. Nil: there was no overlay, or no command.
	Session *overlay.Session
}
