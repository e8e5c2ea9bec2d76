//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// Live changes: nsrun watches the places where a command's writes appear (see Execution.Places), and reports them as
// changes of the project. They are for callers that want to see something while the command runs. The final changes are
// in Result.Changes, which come from the overlay, whether anything was watched or not.

// touchedMost is how many paths Result.Touched lists.
const touchedMost = 10_000

// lostMost is how many errors of the watcher become Notices: a command can cause any number.
const lostMost = 10

// begin starts to watch, just before the command is started.
func (w *watch) begin(x *Execution) {
	w.end()
	w.err, w.places = nil, map[string]Place{}
	if w.known == nil {
		w.known = make(chan struct{})
	}
	places := x.Places()
	var roots []string
	// Before Linux 6.8, a watch of an upper directory does not report that a file was written through the overlay. In a
	// copy of the project, every change is reported, and what was copied a moment ago would seem to be new.
	sweep := x.session == nil || x.session.Info().Engine == overlay.EngineOverlay
	for _, p := range places {
		nested := slices.ContainsFunc(places, func(q Place) bool { return q != p && paths.Inside(p.Dir, q.Dir) })
		hidden := p.Dir != p.Project && x.session.Info().Engine == overlay.EngineTmpfs
		if !nested && !hidden {
			w.places[p.Dir] = p
			roots = append(roots, p.Dir)
			sweep = sweep && p.Dir != p.Project // what is not an upper directory can be large
		}
	}
	if len(roots) == 0 {
		return
	}
	if !slices.ContainsFunc(roots, func(dir string) bool { return !host.Empty(dir) }) {
		// Fanotify reports to each watcher everything on the file system, and so what all other commands write.
		// In a new session inotify has nothing to search, but there are fewer inotify instances
		// (fs.inotify.max_user_instances, 128 by default). If they are used up, root uses fanotify, and others
		// get an error.
		if w.watcher, w.err = fanotify.New(fanotify.Options{Roots: roots, Engine: fanotify.Inotify, Sweep: sweep}); w.err == nil {
			return
		}
	}
	w.watcher, w.err = fanotify.New(fanotify.Options{Roots: roots, Sweep: sweep})
}

// Events yields what the command changes in the folders that it can write to, while it runs. It ends after the command
// has ended and all events were returned. Config.Watch must be set. An event's Root is the project's folder, not the
// overlay's upper directory; Created means that the project does not have the path.
//
// If you call Events before Wait, iterate before Wait, or in a separate goroutine: Wait first waits for the end of the
// iteration, but no longer than Config.Grace after the context has ended. If you call it later, or with
// overlay.EngineTmpfs, where nothing can be seen before the command has ended, it yields the changes as a whole, as
// soon as Wait knows them; it calls Wait for that, except with Hold, where Collect finds them. An error says what could
// not be seen (fanotify.ErrOverflow and others); the iteration goes on if it can.
func (x *Execution) Events() iter.Seq2[fanotify.Event, error] {
	w := &x.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watcher == nil || w.drained != nil {
		return x.eventsAfterwards
	}
	watcher, drained := w.watcher, make(chan struct{})
	w.drained = drained
	var once sync.Once
	return func(yield func(fanotify.Event, error) bool) {
		defer once.Do(func() { close(drained) })
		defer watcher.Close()
		go func() { // nobody may have called Wait yet
			_ = x.wait()
			watcher.Stop()
		}()
		for ev, err := range watcher.Events() {
			if err == nil {
				own, left := x.see(&ev)
				if left {
					break
				}
				if !own {
					continue
				}
			}
			if !yield(ev, err) {
				return
			}
		}
		if w.wasLeft() {
			yield(fanotify.Event{}, errLeft)
		}
	}
}

// errLeft is the last error of an iteration that takes too long.
var errLeft = errors.New("the context has ended: later changes are not reported")

// see turns an event into one of the project, and reports whether it is the command's; left says that nobody waits for
// the iteration any more.
func (x *Execution) see(ev *fanotify.Event) (own, left bool) {
	x.watch.using.Lock()
	defer x.watch.using.Unlock()
	if x.watch.left || x.mounting(ev) {
		return false, x.watch.left
	}
	x.translate(ev)
	if !ev.Dir && ev.Op != fanotify.Removed {
		x.later.Saw(ev.Root, ev.Path)
	}
	return true, false
}

// eventsAfterwards yields the changes once they are known.
func (x *Execution) eventsAfterwards(yield func(fanotify.Event, error) bool) {
	w := &x.watch
	w.mu.Lock()
	known, err := w.known, w.err
	w.mu.Unlock()
	if err != nil && !yield(fanotify.Event{}, err) || known == nil {
		return
	}
	if x.runner.config.after() != Hold {
		_, _ = x.Wait()
	}
	<-known
	for _, c := range x.result.Changes {
		ev := fanotify.Event{Op: fanotify.Created, Root: c.Root, Path: c.Path, Dir: c.Mode.IsDir(), Time: x.began.Add(x.result.Duration)}
		switch c.Kind {
		case overlay.Modified:
			ev.Op = fanotify.Written
		case overlay.Deleted:
			ev.Op = fanotify.Removed
		}
		if !yield(ev, nil) {
			return
		}
	}
}

// mounting reports whether an event is not the command's: the kernel sets attributes of its own on the upper directory
// of an overlay. If a command changes mode or owner of the project's directory, the new values show that.
func (x *Execution) mounting(ev *fanotify.Event) bool {
	p, ok := x.watch.places[ev.Root]
	if !ok || p.Dir == p.Project || ev.Path != "." || ev.Op != fanotify.Attributes {
		return false
	}
	var upper, lower unix.Stat_t
	return unix.Lstat(p.Dir, &upper) == nil && unix.Lstat(p.Project, &lower) == nil &&
		upper.Mode == lower.Mode && upper.Uid == lower.Uid && upper.Gid == lower.Gid
}

// translate turns an event in a place into one of the project.
func (x *Execution) translate(ev *fanotify.Event) {
	p, ok := x.watch.places[ev.Root]
	if !ok {
		return
	}
	ev.Root = p.Project
	if p.Dir == p.Project || x.session.Info().Engine != overlay.EngineOverlay || ev.Op != fanotify.Created {
		return
	}
	// overlayfs copies a file up before it is written to, and makes a whiteout for a removed one: both appear as
	// created in the upper directory.
	c := overlay.Change{Root: p.Project, Path: ev.Path}
	if removed, err := x.session.Removed(c); err == nil && removed {
		ev.Op = fanotify.Removed
	} else if _, err := x.session.Mode(c, overlay.Before); err == nil {
		ev.Op = fanotify.Written
	}
}

// touched collects what Result.Touched lists.
type touched struct {
	seen map[string]bool
	list []string
	more int
}

func (t *touched) take(ev fanotify.Event) {
	if ev.Op != fanotify.Created && ev.Op != fanotify.Written && ev.Op != fanotify.Renamed || ev.Path == "." {
		return
	}
	path := filepath.Join(ev.Root, ev.Path)
	switch {
	case t.seen[path]:
	case len(t.list) >= touchedMost:
		t.more++
	default:
		if t.seen == nil {
			t.seen = map[string]bool{}
		}
		t.seen[path] = true
		t.list = append(t.list, path)
	}
}

// runWatched is Run for a command that is watched.
func (x *Execution) runWatched() (Result, error) {
	var t touched
	var lost []Notice
	more := 0
	done := make(chan struct{})
	events := x.Events()
	go func() {
		defer close(done)
		for ev, err := range events {
			switch {
			case err == nil:
				t.take(ev)
			case len(lost) < lostMost:
				lost = append(lost, Notice{Kind: NoticeWatch, Text: "live changes: " + strings.ReplaceAll(err.Error(), "\n", "; ")})
			default:
				more++
			}
		}
	}()
	_, err := x.Wait()
	<-done
	x.result.Touched, x.result.TouchedMore = t.list, t.more
	if more > 0 {
		lost = append(lost, Notice{Kind: NoticeWatch, Text: fmt.Sprintf("live changes: and %d more errors", more)})
	}
	x.result.Notices = append(x.result.Notices, lost...)
	return x.result, err
}

// RunsLater says in a few words why the file of an event of Events would later be executed or obeyed by itself, as
// overlay.Change.Runs does, but for the present content. Empty: it would not. Call it from the goroutine that iterates.
func (x *Execution) RunsLater(ev fanotify.Event) string {
	if ev.Dir || ev.Op == fanotify.Removed {
		return ""
	}
	if x.live == nil {
		var places []host.Place
		for _, p := range x.Places() {
			places = append(places, host.Place{Dir: p.Dir, Folder: p.Project})
		}
		x.live = host.NewLive(places)
	}
	return x.live.Reason(ev.Root, ev.Path, ev.Op == fanotify.Attributes)
}
