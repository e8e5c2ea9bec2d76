package overlay

import (
	"fmt"

	"github.com/nsrun/nsrun/internal/escape"
)

// A Holder is the process that a commit waits for. The zero Holder is one that nsrun cannot find: it may be another
// user's, or in another container.
type Holder struct {
	PID     int
	Program string // the process's name (proc_pid_comm(5)); empty: unknown
	Stopped bool   // by a signal, or by a debugger
}

// String is the process for people: "process 123 (nsrun), which is stopped". Of the zero Holder it is empty.
func (h Holder) String() string {
	if h == (Holder{}) {
		return ""
	}
	s := fmt.Sprint("process ", h.PID)
	if h.Program != "" {
		s += " (" + escape.Printable(h.Program) + ")"
	}
	if h.Stopped {
		s += ", which is stopped"
	}
	return s
}

// A WaitError says for which other commit a commit has waited. Err is the context's error, or context.DeadlineExceeded
// if CommitOptions.Wait is over.
type WaitError struct {
	Holder Holder
	Err    error
}

func (e *WaitError) Error() string {
	if e.Holder == (Holder{}) {
		return "another commit to this project has not ended: " + e.Err.Error()
	}
	return "another commit to this project has not ended: that of " + e.Holder.String() + ": " + e.Err.Error()
}

func (e *WaitError) Unwrap() error { return e.Err }
