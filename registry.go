package nsrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// Registry records what commands did in a project.Registry: the audit log, backups of files before they are changed,
// and permissions that were given permanently. It implements Recorder and Permissions. It stops no command and no
// commit: if it cannot record something, there is a Notice.
//
// Several Runners, and processes, can use one.
type Registry struct {
	// Registry is the registry to write to. It must not be nil.
	Registry *project.Registry
}

// Record is for Recorder.
func (g Registry) Record(ctx context.Context, rec Record) error {
	res := rec.Result
	e := project.Execution{
		Command: rec.Args, Dir: rec.Dir, Began: res.began, Ended: res.began.Add(res.Duration),
		ExitCode: res.ExitCode, Signal: res.SignalName(), TimedOut: res.TimedOut,
		Network: res.Network.Mode,
	}
	if res.Started {
		if e.Backend = res.Backend.String(); res.Unsandboxed != "" {
			e.Backend = features.Unsandboxed
		}
	}
	if res.Err != nil {
		e.Denied = []string{res.Err.Error()}
	}
	for i, d := range res.Network.Denied() {
		if i == mostDenied {
			break
		}
		e.Denied = append(e.Denied, deniedText(d))
	}
	var original func(project.Change) (*os.File, error)
	var changes []project.Change
	var err error
	if s := rec.Session; s != nil {
		e.Engine = s.Info().Engine.String()
		for _, root := range s.Roots() {
			e.Roots = append(e.Roots, root.Path)
		}
		if len(res.Changes) > 0 {
			e.Session, e.State = s.ID(), project.StateKept
		}
		changes, err = registryChanges(s, res.Changes)
		original = func(c project.Change) (*os.File, error) {
			return s.File(overlay.Change{Kind: c.Kind, Root: c.Root, Path: c.Path}, overlay.Before)
		}
	}
	note := func(err error) {
		switch {
		case errors.Is(err, context.Canceled): // a second Ctrl-C
			res.note(NoticeRegistry, "registry: interrupted; it may lack a part of what the command changed")
		case err != nil:
			res.note(NoticeRegistry, "registry: "+features.WithRefused(err).Error())
		}
	}
	note(err)
	out, err := g.Registry.Record(ctx, e, changes, original)
	note(err)
	res.Execution = out.ID
	for _, b := range out.Backups {
		res.Backups = append(res.Backups, Backup{b.Path, b.Copy})
	}
	for _, o := range out.Omitted {
		if o.What == "backup" && o.Why != nil {
			res.Notices = append(res.Notices, Notice{NoticeBackup, o.Path, "no backup of " + escape.Quote(o.Path) + ": " + o.Why.Error()})
		}
	}
	return nil
}

// mostDenied is how many refusals of the network are recorded: a command can cause any number.
const mostDenied = 100

// deniedText says what a command wanted to reach.
func deniedText(d netpolicy.Decision) string {
	switch {
	case d.Server:
		return "server at " + d.Proto + " " + net.JoinHostPort(d.Address, strconv.Itoa(int(d.Port)))
	case d.Group:
		return "group " + d.Address
	case d.Address == "":
		return d.Proto + " " + d.Host
	}
	text := d.Proto + " " + net.JoinHostPort(cmp.Or(d.Host, d.Address), strconv.Itoa(int(d.Port)))
	if d.Host != "" {
		text += " at " + d.Address
	}
	return text
}

// Committed is for Recorder.
func (g Registry) Committed(ctx context.Context, s *overlay.Session) error {
	changes, err := s.Committed()
	if err != nil {
		return err
	}
	list, _ := registryChanges(nil, changes)
	return g.Registry.Committed(ctx, s.ID(), s.State() == overlay.Committed, list)
}

// Undone records that a commit was undone: changes are those that Session.Committed returned before, and does not
// return now.
func (g Registry) Undone(ctx context.Context, s *overlay.Session, changes []overlay.Change) error {
	left, err := s.Committed()
	if err != nil {
		return err
	}
	list, _ := registryChanges(nil, changes)
	return g.Registry.Undone(ctx, s.ID(), len(left) == 0, list)
}

// Undropped records that a drop or a discard was undone.
func (g Registry) Undropped(ctx context.Context, s *overlay.Session) error {
	var changes []overlay.Change
	for c, err := range s.Changes() {
		if err != nil {
			return err
		}
		changes = append(changes, c)
	}
	done, err := s.Committed()
	if err != nil {
		return err
	}
	list, err := registryChanges(s, changes)
	return errors.Join(err, g.Registry.Undropped(ctx, s.ID(), len(done) == 0, list))
}

// Dropped records that changes were dropped from the session (overlay.Session.Drop).
func (g Registry) Dropped(ctx context.Context, s *overlay.Session, changes []overlay.Change) error {
	if s.State() == overlay.Discarded { // nothing is left
		return g.Discarded(ctx, s.ID())
	}
	list, err := registryChanges(s, changes)
	err = errors.Join(err, g.Registry.Dropped(ctx, s.ID(), list))
	if s.State() == overlay.Committed { // what is left is in the project
		err = errors.Join(err, g.Registry.Committed(ctx, s.ID(), true, nil))
	}
	return err
}

// Discarded is for Recorder.
func (g Registry) Discarded(ctx context.Context, session string) error {
	var list []project.Change
	for e, err := range g.Registry.Executions(project.Filter{Session: session}) {
		if err == nil { // what cannot be read is as if it was not there
			list = append(list, e.Changes...)
		}
	}
	return g.Registry.Discarded(ctx, session, list)
}

// registryChanges converts a session's changes for the registry: with everything in a deleted directory, if there is a
// session to look into.
func registryChanges(s *overlay.Session, changes []overlay.Change) (list []project.Change, err error) {
	add := func(c overlay.Change) {
		list = append(list, project.Change{
			Kind: c.Kind, Root: c.Root, Path: c.Path, Mode: c.Mode, OldMode: c.OldMode, Size: c.Size, OldSize: c.OldSize,
			Runs: c.Runs,
		})
	}
	for _, c := range changes {
		add(c)
		if s == nil || c.Kind != overlay.Deleted && c.Kind != overlay.TypeChanged {
			continue
		}
		for below, berr := range s.Below(c) {
			if berr != nil {
				err = fmt.Errorf("list deleted files: %w", berr)
				break
			}
			add(below)
		}
	}
	return list, err
}

// registryAction converts an action for the registry, which takes none about the network.
func registryAction(action string) (a project.Action, ok bool) {
	switch action {
	case string(ActionWrite):
		return project.Write, true
	case string(ActionShow):
		return project.Read, true
	}
	return a, false
}

// Permission is for Permissions.
func (g Registry) Permission(root, action, target string) (allow, found bool, err error) {
	a, ok := registryAction(action)
	if !ok {
		return false, false, nil
	}
	p, err := g.Registry.Get(root, a, target)
	return p.Decision == project.Allow, p.Decision != 0, err
}

// SetPermission is for Permissions.
func (g Registry) SetPermission(root, action, target string, allow bool) error {
	a, _ := registryAction(action)
	p := project.Permission{Project: root, Action: a, Target: target, Decision: project.Deny}
	if allow {
		p.Decision = project.Allow
	}
	return g.Registry.Set(p)
}

func (g Registry) registry() *project.Registry { return g.Registry }

// registryOf finds the registry in a Registry, a pointer to one, or a struct that embeds either. Nil and keeps: there
// is a Registry, but no registry in it, or the pointer is nil.
func registryOf(v any) (r *project.Registry, keeps bool) {
	g, keeps := v.(interface{ registry() *project.Registry })
	if !keeps {
		return nil, false
	}
	defer func() { _ = recover() }() // of a nil pointer, wherever in v that is
	return g.registry(), true
}

// privateDirs are the directories of Recorder and Permissions, which commands must not see.
func (c *Config) privateDirs() (dirs []string) {
	for _, v := range [...]any{c.Recorder, c.Permissions} {
		if r, keeps := registryOf(v); keeps {
			dirs = append(dirs, r.Private()...)
		}
		if p, ok := v.(interface{ Private() []string }); ok {
			dirs = append(dirs, p.Private()...)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
