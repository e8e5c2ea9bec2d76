//go:build linux

package record

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	nsrunlib "github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/configfile"
	"github.com/nsrun/nsrun/internal/homelayer"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// What verbs tell the registry. No verb fails because of it: errors are printed, and the verb goes on.

// Tell calls tell with the registry, and says what went wrong. A user without a home directory has no registry.
func Tell(tell func(context.Context, nsrunlib.Registry) error) { TellWith(project.Options{}, tell) }

// TellWith is Tell with a registry that is opened with options.
func TellWith(o project.Options, tell func(context.Context, nsrunlib.Registry) error) {
	if _, _, err := project.DefaultDirs(); err != nil {
		return
	}
	reg := project.Open(o)
	err := tell(context.Background(), nsrunlib.Registry{Registry: reg})
	if cerr := reg.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		console.Say("registry: %s", strings.ReplaceAll(features.WithRefused(err).Error(), "\n", "; "))
	}
}

// Commit tells the registry what is in the project now.
func Commit(s *overlay.Session) {
	Tell(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Committed(ctx, s) })
}

// Undo tells the registry that changes were taken out of the project again.
func Undo(s *overlay.Session, changes []overlay.Change) {
	Tell(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Undone(ctx, s, changes) })
}

// Undrop tells the registry that a drop or a discard was taken back.
func Undrop(s *overlay.Session) {
	Tell(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Undropped(ctx, s) })
}

// DropChanges takes what is at the paths out of a session, and returns it for Drop, also with an error after which that
// is done (overlay.Done). Where it could not be listed the registry learns it from the next scan.
func DropChanges(ctx context.Context, s *overlay.Session, paths ...string) (dropped []overlay.Change, err error) {
	type place struct{ root, path string }
	left := map[place]bool{}
	var lerr error
	for c, err := range s.Changes() {
		lerr = cmp.Or(lerr, err)
		dropped = append(dropped, c)
	}
	err = s.Drop(ctx, paths...)
	if err != nil && !overlay.Done(err) {
		return nil, err
	}
	if s.State() == overlay.Kept {
		for c, err := range s.Changes() {
			lerr = cmp.Or(lerr, err)
			left[place{c.Root, c.Path}] = true
		}
	}
	if lerr != nil {
		return nil, err
	}
	return slices.DeleteFunc(dropped, func(c overlay.Change) bool { return left[place{c.Root, c.Path}] }), err
}

// Drop tells the registry that changes were taken out of a session.
func Drop(s *overlay.Session, dropped []overlay.Change) {
	Tell(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Dropped(ctx, s, dropped) })
}

// Discard tells the registry that a session's changes are no more.
func Discard(id string) {
	Tell(func(ctx context.Context, reg nsrunlib.Registry) error { return reg.Discarded(ctx, id) })
}

// Tidy removes old sessions that have ended, if that was not done today. What fails is
// nothing that the user asked for: gc and doctor tell.
func Tidy() {
	sessions, copies, err := Retention()
	if err != nil {
		return // nobody knows how long they are to stay
	}
	_ = overlay.CleanDailyWith("", overlay.CleanOptions{Ended: sessions})
	if dir, err := host.HomeLayers(); err == nil {
		_ = homelayer.CleanDaily(dir)
	}
	reg := project.Open(copies)
	_ = reg.CleanDaily(context.Background())
	_ = reg.Close()
}

// Retention is how long sessions that have ended stay, and with which options a registry keeps its copies and log so
// long, as configuration files say.
func Retention() (sessions time.Duration, copies project.Options, err error) {
	p, _, err := configfile.Load(host.Home(), configfile.Query{Places: configfile.DefaultPlaces()})
	if err != nil || p == nil {
		return 0, copies, err
	}
	r := p.Retention()
	return r.Sessions, project.Options{Retention: r.Backups, LogRetention: r.Log}, nil
}
