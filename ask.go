//go:build linux

package nsrun

import (
	"context"
	"fmt"

	"github.com/nsrun/nsrun/internal/host"
)

// approve asks for all that a request wants beyond the Config.
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
		// Without a project it would be for all of them.
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
