package nsrun

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/escape"
)

// Action is what a Request may ask for beyond its Config.
type Action string

// The actions; there are no others.
const (
	ActionNetwork Action = "network" // use the host's network
	ActionWrite   Action = "write"   // write to a path, which is the target
	ActionShow    Action = "show"    // see a path that may be hidden, which is the target
	ActionKey     Action = "key"     // know of a key of the ssh-agent, which is the target, and ask to use it
	ActionSign    Action = "sign"    // have the ssh-agent or gpg-agent sign with a key, which is the target, once
	ActionConnect Action = "connect" // connect to a unix socket, or by a rule of the network: the target; Learn asks for it, and Docker, X11 and DBus do
	// ActionCredential is to send requests with a credential to a host, which is the target, without having it.
	ActionCredential Action = "credential"
)

// Question is what an Approver is asked.
type Question struct {
	Action Action
	// Target is what the action is about, such as a path. For the network it is a text that is different each time,
	// so that no stored answer applies.
	Target string
	// Project is Config.Project, without symbolic links.
	Project string
	// Command is what would be run, with its control characters escaped.
	Command string
	// About says what ActionSign is for, as far as that can be known: the host's key was checked, but all names are
	// the command's words. For ActionCredential it names the credential. Empty with the other actions.
	About string
	// Running says that the command runs while this is asked. False: it is asked before.
	Running bool
	// OneTime says that the answer is not remembered: AllowSession and AllowAlways count as Allow, the others as
	// Deny.
	OneTime bool
}

// String returns the question for people: one line with control characters escaped. If the command is long, so that its
// end could look like a question about another one, its beginning is repeated at the end.
func (q Question) String() string {
	switch q.Action {
	case ActionKey:
		return "Let the command list the key " + escape.Printable(q.Target) + " of the ssh-agent, and ask for its use? The command: " + begin(q.Command)
	case ActionCredential:
		return "Let git in the sandbox use " + escape.Printable(q.Target) + " " + escape.Printable(q.About) +
			", which the command does not see? The command: " + begin(q.Command)
	case ActionSign:
		return "Sign with the key " + escape.Printable(q.Target) + ", once, " + escape.Printable(q.About) +
			"? This command in a sandbox asks for it: " + begin(q.Command)
	}
	kind, to := "network access", ""
	switch q.Action {
	case ActionWrite:
		kind, to = "write access", " to "+escape.Quote(q.Target)
	case ActionShow:
		kind, to = "read access", " to "+escape.Quote(q.Target)
	case ActionConnect:
		kind, to = "access", " to "+escape.Quote(q.Target)
	}
	text := "Run command with " + kind + to + ": " + q.Command + "?"
	if utf8.RuneCountInString(text) < longQuestion {
		return text
	}
	start := []rune(strings.Join(strings.Fields(q.Command), " "))
	return text + fmt.Sprintf(" This one command has %d characters and would get %s; it begins with: %s",
		utf8.RuneCountInString(q.Command), kind, string(start[:min(len(start), longQuestion/4)]))
}

// begin is the beginning of a command, on one line.
func begin(command string) string {
	words := []rune(strings.Join(strings.Fields(command), " "))
	if len(words) > longQuestion/4 {
		return string(words[:longQuestion/4]) + "…"
	}
	return string(words)
}

// longQuestion is the number of characters from which a window may not show a whole question, or not in a way that it
// looks like one.
const longQuestion = 240

// Answer is the answer to a Question. The zero Answer is Deny.
type Answer uint8

// The answers. DenySession and AllowSession last as long as the Runner. DenyAlways and AllowAlways last until somebody
// changes them where Config.Permissions keeps them; they need a Config.Project.
const (
	Deny Answer = iota
	Allow
	DenySession
	AllowSession
	DenyAlways
	AllowAlways
)

// Allows reports whether a is one of those that allow.
func (a Answer) Allows() bool { return a == Allow || a == AllowSession || a == AllowAlways }

// An Approver decides what commands may do beyond a Config. It may be called from several
// goroutines, for several commands; ctx ends with the request. An error denies.
type Approver interface {
	Approve(ctx context.Context, q Question) (Answer, error)
}

// Permissions keep answers longer than a Runner lives, for a project, an Action and a target. Its methods may be called
// from several goroutines. Answers about the network are never looked up.
type Permissions interface {
	Permission(project, action, target string) (allow, found bool, err error)
	SetPermission(project, action, target string, allow bool) error
}

// DeniedError says that something was not approved. The command was not run.
type DeniedError struct {
	Question Question
	Err      error // why there was no answer; nil: it was no
}

func (e *DeniedError) Error() string {
	text := "network access"
	switch e.Question.Action {
	case ActionWrite:
		text = "write access to " + escape.Quote(e.Question.Target)
	case ActionShow:
		text = "read access to " + escape.Quote(e.Question.Target)
	case ActionKey, ActionSign, ActionCredential:
		text = "use of " + escape.Quote(e.Question.Target)
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		return "denied: " + text
	case ActionConnect:
		text = "access to " + escape.Quote(e.Question.Target)
	}
	text += " was denied: the command was not run"
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	return text
}

func (e *DeniedError) Unwrap() error { return e.Err }

// A ServiceUse is one use of a service that a command made or tried to make.
type ServiceUse struct {
	// Service is SSHAgent, GPGAgent, or "credential".
	Service string `json:"service"`
	// Target is what was used: a key, by its fingerprint and comment; of a credential, the host.
	Target string `json:"target"`
	// About says what it was for, as far as that can be known.
	About string `json:"about"`
	// Allowed says that it was allowed. If not, Reason says why, unless somebody said no.
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
}
