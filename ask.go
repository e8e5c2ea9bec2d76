//go:build linux

package nsrun

import (
	"context"
	"fmt"

	"github.com/nsrun/nsrun/internal/ask"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sys"
)

// approve asks about everything that a request wants beyond the Config.
func (r *Runner) approve(ctx context.Context, q *Request) error {
	about := Question{Command: q.text()}
	if r.config.Project != "" {
		var err error
		if about.Project, err = host.Folder(r.config.Project, r.config.suspect(nil)); err != nil {
			return err
		}
	}
	for _, rule := range q.Paths {
		about.Target = rule.Pattern
		switch rule.Mode {
		case Direct:
			about.Action = ActionWrite
		case ReadOnly:
			about.Action = ActionShow
		default:
			continue
		}
		if err := r.ask(ctx, about); err != nil {
			return err
		}
	}
	if !q.Network && !q.LearnNet {
		return nil
	}
	about.Action, about.OneTime = ActionNetwork, true
	about.Target = unique()
	return r.ask(ctx, about)
}

// ask returns nil if the answer allows it.
func (r *Runner) ask(ctx context.Context, q Question) error {
	denied := func(err error) error { return &DeniedError{q, err} }
	key := permission{q.Action, q.Target}
	store := r.config.Permissions
	if !q.OneTime {
		r.mu.Lock()
		allow, found := r.answers[key]
		r.mu.Unlock()
		if !found && store != nil {
			var err error
			if allow, found, err = store.Permission(q.Project, string(q.Action), q.Target); err != nil {
				return denied(err)
			}
		}
		switch {
		case found && allow:
			return nil
		case found:
			return denied(nil)
		}
	}
	if r.config.Approver == nil {
		return denied(errNobody)
	}
	answer, err := r.config.Approver.Approve(ctx, q)
	switch {
	case err != nil:
		return denied(err)
	case answer > AllowAlways:
		return denied(fmt.Errorf("BUG: answer %d", answer))
	}
	if !q.OneTime && answer > Allow {
		r.mu.Lock()
		if r.answers == nil {
			r.answers = make(map[permission]bool)
		}
		r.answers[key] = answer.Allows()
		r.mu.Unlock()
		// Without a project, the answer would apply to all of them.
		if answer >= DenyAlways && store != nil && q.Project != "" {
			err = store.SetPermission(q.Project, string(q.Action), q.Target, answer.Allows())
		}
	}
	if !answer.Allows() {
		return denied(nil)
	}
	if err != nil {
		return &Error{Op: "keep permission", Path: q.Target, Err: err}
	}
	return nil
}

// permission is the remembered part of an answer.
type permission struct {
	action Action
	target string
}

// unique returns a target that no other question has.
func unique() string { return "network-" + sys.RandomText(32) }

// Terminal is an Approver that asks on the controlling terminal, whatever standard input is. Only
// an explicit yes is a yes; without a terminal the answer is no. All Terminals ask their questions
// one after the other. The zero Terminal is ready for use.
type Terminal struct {
	// Prefix is written before each question. Empty: nothing.
	Prefix string
}

// Approve asks.
func (t Terminal) Approve(ctx context.Context, q Question) (Answer, error) {
	choice, line := "[y/N]", ask.Line
	if q.Running {
		line = ask.During
	}
	switch {
	case q.OneTime && q.Running: // somebody may be typing an answer to the command
		choice = "[yes/N]"
	case q.Running:
		choice = "[yes], [session], [always], [No], [ns] not this session, [never]"
	case !q.OneTime:
		choice = "[y]es, [s]ession, [a]lways, [N]o, [ns] not this session, [na] never"
	}
	answer, err := line(ctx, escape.Printable(t.Prefix+q.String())+" "+choice)
	if err != nil {
		return Deny, err
	}
	switch {
	case answer == "yes", answer == "y" && !q.Running:
		return Allow, nil
	case q.OneTime, q.Running && (answer == "s" || answer == "a"):
		return Deny, nil
	}
	switch answer {
	case "s", "session":
		return AllowSession, nil
	case "a", "always":
		return AllowAlways, nil
	case "ns":
		return DenySession, nil
	case "na", "never":
		return DenyAlways, nil
	}
	return Deny, nil
}
