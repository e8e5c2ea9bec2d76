package nsrun

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay"
)

// Result is what became of a Request.
type Result struct {
	// Stdout and Stderr are what the command wrote, see Config.MaxOutput.
	Stdout, Stderr Output
	// ExitCode is the command's exit status; 128+n if signal n ended it. It means nothing
	// if Started is false.
	ExitCode int
	// Signal is what ended the command. Nil: it ended by itself.
	Signal os.Signal
	// TimedOut says that the command was ended because its time was up.
	TimedOut bool
	// Started says that the command was executed.
	Started bool
	// Unsandboxed says why it was executed without a sandbox, see Config.Sandbox. Empty: it had one.
	Unsandboxed string
	// Denied says that it was not, because something was not approved.
	Denied bool
	// Err is what Run returned. Nil: all went well, whatever the exit status.
	Err error

	// Changes are what the session changed in the project: with Keep since it began, with
	// the others by this command. Nil: nothing.
	Changes []overlay.Change
	// Held are those of the Changes that After: Commit did not commit, because they would run
	// later (overlay.Change.Runs): hooks, settings of editors, and the like, or are special
	// (overlay.Change.Special): FIFOs, set-user-id files. They are kept in Session. Nil: none.
	Held []overlay.Change
	// Touched are the paths, absolute, that the command created, wrote to or renamed
	// something to, in the order of the first time, what is gone again among them;
	// TouchedMore is how many there were beyond the first 10,000. They are for
	// Config.Watch and Run only, and tell what was seen: Changes tells what is there. Nil:
	// nothing.
	Touched     []string
	TouchedMore int
	// Session is the id of the session. Empty: there is none, or none that was kept or can
	// be undone.
	Session string
	// State says what became of the changes, but for those that are Held. Zero: Kept; without
	// Changes it means nothing.
	State overlay.State
	// Engine is how they were kept apart. Zero: there was no overlay.
	Engine overlay.Engine

	// Network is what the command had of the network, and tried to reach.
	Network Network

	// Services are the uses of services (SSHAgent) that the command made or wanted to make, the first 200 of them, in their
	// order. Nil: none.
	Services []ServiceUse

	// Limits are those that the command had, and what became of them. Nil: none, or the command was not executed.
	Limits []Limit

	// Refusals are what the policy did not let the command do, as far as that is known: what of the network was denied;
	// a program or working directory that is hidden; and, where it failed and its standard error is in this Result, the
	// paths that its messages name, if the policy refuses just these and nothing else does. Nil: nothing is known.
	Refusals []Refusal

	// Backend is what kept the command in its sandbox. Zero: it had none, or was not executed.
	Backend Backend

	// Missing are the features that would have been used for this command and were not there, so that something
	// else was done: features.Describe says what is lost. They are of these: features.Overlay (Engine is another one),
	// features.OwnProc, features.NewMountCalls, features.LandlockTCP (with rules by the broker), and, where AutoEnforcer had to be the
	// broker for root, features.BPF, features.CgroupV2, features.Clone3, features.LandlockScopes. Nil: none, or the
	// command was not executed.
	Missing []features.Name

	// Backups are copies of what was there before, where the Recorder makes any.
	Backups []Backup
	// Execution is what the Recorder calls this command. Empty: there is no Recorder.
	Execution string

	began    time.Time
	Duration time.Duration // from when nothing else had to be waited for to the command's end
	timeout  time.Duration
	// Notices say what is not as it usually is, and is not an error. Nil: nothing.
	Notices []Notice
}

// String is what a model reads: standard output, then standard error, then the exit
// status if it is not zero. If the command was not run, or something failed afterwards, a
// line says so that starts with "ERROR: "; one that starts with "HELD BACK: " says what
// was not committed with the rest.
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

// HeldText is one line about what is Held, and how the user takes it. Empty: nothing is.
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

// MarshalJSON returns all exported fields, Signal by its name and Err by its text; both are left
// out where there is none.
func (r Result) MarshalJSON() ([]byte, error) {
	type fields Result
	out := struct {
		fields
		Signal string `json:",omitempty"`
		Err    string `json:",omitempty"`
	}{fields: fields(r), Signal: r.SignalName()}
	if r.Signal != nil && out.Signal == "" {
		out.Signal = r.Signal.String()
	}
	if r.Err != nil {
		out.Err = r.Err.Error()
	}
	return json.Marshal(out)
}

// Report is the list of changes, a line each: "M a.go", "A dir/", "D b.go". With several
// roots the paths are absolute.
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
