package project

import "time"

// An Action is what a permission is about. There is no action for the network: network access is asked for every time,
// and a yes must not be stored. Set accepts only the actions below.
type Action string

// A Decision is an answer. The zero Decision is not an answer.
type Decision uint8

// String returns "allow", "deny" or "none".
func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return "none"
}

// A Permission is a permanent answer: it holds until Forget.
type Permission struct {
	Project  string // the root for which it holds, absolute; empty: for all projects
	Action   Action
	Target   string // the path, the command, the variable, as it was asked for
	Decision Decision
	Time     time.Time // zero for Set: now
}

const (
	Read        Action = "read"        // a path outside of the project
	Write       Action = "write"       // a path outside of the project, or past the overlay
	Execute     Action = "execute"     // a command
	Environment Action = "environment" // a variable
)

const (
	Allow Decision = iota + 1
	Deny
)
