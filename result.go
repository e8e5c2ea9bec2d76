package nsrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

// Result is the result of a Request.
type Result struct {
	// Stdout and Stderr are what the command wrote, see Config.MaxOutput.
	Stdout, Stderr Output
	// ExitCode is the command's exit status; 128+n if signal n ended it. It has no meaning if Started is false.
	ExitCode int
	// Signal is what ended the command. Nil: it ended by itself.
	Signal os.Signal
	// TimedOut says that the command was ended because of a Timeout.
	TimedOut bool
	// Started says that the command was executed.
	Started bool
	// Unsandboxed says why it was executed without a sandbox, see Config.Sandbox. Empty: it had one.
	Unsandboxed string
	// Denied says that the command was not executed, because something was not approved.
	Denied bool
	// Err is the error that Run returned. Nil: there was none, whatever the exit status.
	Err error

	// Changes are what the session changed in the project: with Keep since it began, with
	// the others by this command. Nil: nothing.
	Changes []overlay.Change
	// Held are the Changes that After: Commit did not commit, because they would run later (overlay.Change.Runs:
	// hooks, settings of editors, and the like) or are special (overlay.Change.Special: FIFOs, set-user-id files).
	// They are kept in Session. Nil: none.
	Held []overlay.Change
	// Touched are the absolute paths that the command created, wrote to or renamed something to, in the order of
	// the first time, including those that it removed again. TouchedMore is how many there were beyond the first
	// 10,000. They are set with Config.Watch and Run only. They report what happened; Changes reports the result.
	// Nil: none.
	Touched     []string
	TouchedMore int
	// Session is the id of the session. Empty: there is none, or none that was kept or can be undone.
	Session string
	// State says what happened to the changes, except those that are Held. Zero: Kept. Without Changes it has no
	// meaning.
	State overlay.State
	// Engine is how the changes were kept apart. Zero: there was no overlay.
	Engine overlay.Engine

	// Network is what the command had of the network, and tried to reach.
	Network Network

	// Services are the uses of services (such as SSHAgent) that the command made or tried to make, in their order,
	// at most the first 200. Nil: none.
	Services []ServiceUse

	// Limits are the limits that the command had, and how they were enforced. Nil: none, or the command was not
	// executed.
	Limits []Limit

	// Refusals are what the policy refused the command, as far as that is known: denied network access; a program
	// or working directory that is hidden; and, if the command failed and its standard error is in this Result, the
	// paths that its messages name, if the policy, and nothing else, refuses them. Of a command that runs tests, the
	// standard output counts, too. Config.Why makes them complete. Nil: none are known.
	Refusals []Refusal

	// Backend is the mechanism that made the sandbox. Zero: there was no sandbox, or the command was not executed.
	Backend Backend

	// Missing are the features that this command would have used, but this machine lacks, so that something else
	// was done: features.Describe says what is lost. They are among these: features.Overlay (Engine is another
	// one), features.OwnProc, features.NewMountCalls, features.LandlockTCP (with rules by the broker), and, where
	// AutoEnforcer had to be the broker for root, features.BPF, features.CgroupV2, features.Clone3,
	// features.LandlockScopes. Nil: none, or the command was not executed.
	Missing []features.Name

	// Backups are copies of files as they were before, if the Recorder makes any. Nil: none.
	Backups []Backup
	// Execution is the Recorder's id of this command. Empty: there is no Recorder.
	Execution string

	began    time.Time
	Duration time.Duration // from the start, after all questions and waiting for other commands, to the end of the command
	timeout  time.Duration
	// Notices report unusual conditions that are not errors. Nil: nothing.
	Notices []Notice
}

// String returns what a model should read: standard output, then standard error, then the exit status if it is not
// zero. If the command was not run, or something failed afterwards, a line that starts with "ERROR: " says so. A line
// that starts with "HELD BACK: " says what was not committed with the rest.
func (r Result) String() string {
	var b strings.Builder
	add := func(text string) {
		if text == "" {
			return
		}
		if s := b.String(); s != "" && s[len(s)-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	if r.Started && r.Unsandboxed != "" {
		add("NO SANDBOX: " + r.Unsandboxed + "\n")
	}
	if r.Started {
		add(r.Stdout.String())
		add(r.Stderr.String())
		switch {
		case r.TimedOut:
		case r.Signal != nil:
			add(fmt.Sprintf("exit code: %d (%s)\n", r.ExitCode, r.Signal))
		case r.ExitCode != 0:
			add(fmt.Sprintf("exit code: %d\n", r.ExitCode))
		}
	}
	if r.TimedOut {
		add(fmt.Sprintf("ERROR: Timed out after %s: the command was ended\n", r.timeout))
	}
	for _, l := range r.Limits {
		if l.Killed {
			add("ERROR: K" + l.String()[1:] + "\n")
		}
	}
	if r.Err != nil && (r.Started || !r.TimedOut) {
		add(ErrorText(r.Err) + "\n")
	}
	if len(r.Held) > 0 {
		add(r.HeldText() + "\n")
	}
	return b.String()
}

func (r *Result) note(kind NoticeKind, text string) {
	r.Notices = append(r.Notices, Notice{Kind: kind, Text: text})
}

// HeldText returns one line about what is Held, and how the user can commit it. Empty: nothing is held.
func (r Result) HeldText() string {
	if len(r.Held) == 0 {
		return ""
	}
	const most = 5
	list := make([]string, 0, most+1)
	flag := ""
	for i, c := range r.Held {
		why := c.Special
		if c.Runs != "" {
			why = c.Later()
		}
		if c.Special != "" {
			flag = "--allow-special "
		}
		switch {
		case i < most:
			list = append(list, escape.Quote(c.Path)+" ("+why+")")
		case i == most:
			list = append(list, fmt.Sprintf("%d more", len(r.Held)-most))
		}
	}
	is, it := " is", "it"
	if len(r.Held) > 1 {
		is, it = " are", "them"
	}
	return "HELD BACK: " + strings.Join(list, ", ") + is + " not in the project. The user can review and commit " + it +
		": nsrun review " + flag + r.Session
}

// resultFields are the fields of a Result as JSON has them.
type resultFields struct {
	plainResult
	Signal  string        `json:",omitempty"`
	Err     string        `json:",omitempty"`
	Timeout time.Duration `json:",omitempty"`
}

type plainResult Result

// MarshalJSON returns all exported fields, Signal by its name and Err by its text; both are omitted if they are nil. If
// there was a time limit, it is Timeout, in nanoseconds as Duration is.
func (r Result) MarshalJSON() ([]byte, error) {
	out := resultFields{plainResult: plainResult(r), Signal: r.signalText(), Timeout: r.timeout}
	if r.Err != nil {
		out.Err = r.Err.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON has written. Of an Err it has only the text, so Failure does not know its kind.
func (r *Result) UnmarshalJSON(data []byte) error {
	in := resultFields{plainResult: plainResult(*r)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*r = Result(in.plainResult)
	r.Signal, r.Err, r.timeout = nil, nil, in.Timeout
	if in.Signal != "" {
		r.Signal = signalOf(in.Signal)
	}
	if in.Err != "" {
		r.Err = errors.New(in.Err)
	}
	return nil
}

// signalText is the name of the signal, or another text for one that has no name. Empty: there is none.
func (r *Result) signalText() string {
	if name := r.SignalName(); name != "" || r.Signal == nil {
		return name
	}
	return r.Signal.String()
}

// signalOf is the signal with this signalText.
func signalOf(text string) os.Signal {
	for s := syscall.Signal(1); s <= mostSignals; s++ {
		if (&Result{Signal: s}).signalText() == text {
			return s
		}
	}
	return otherSignal(text)
}

// mostSignals is how many signals Linux has.
const mostSignals = 64

// otherSignal is a signal that this system does not have.
type otherSignal string

func (s otherSignal) String() string { return string(s) }

// Signal makes it an os.Signal.
func (otherSignal) Signal() {}

// Report returns the list of changes, one per line: "M a.go", "A dir/", "D b.go". With several roots the paths are
// absolute.
func (r Result) Report() string {
	roots := make(map[string]bool)
	for _, c := range r.Changes {
		roots[c.Root] = true
	}
	var b strings.Builder
	for _, c := range r.Changes {
		line := c.String()
		if len(roots) > 1 {
			line = line[:2] + c.Root + "/" + line[2:]
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// A Backup is a copy of a file as it was before it was changed.
type Backup struct {
	Path string // of the file, absolute
	Copy string // of the backup, absolute
}
