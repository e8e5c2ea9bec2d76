//go:build linux

package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// The model of what many processes do with sessions at once. Each worker has files of its own in every project, next
// to those of others, so that it knows at any time what is there; and all write to a few hot ones. What it knows is
// written down before and after each step: the worker that goes on after its process was killed knows what was
// under way, and that it was done wholly or not at all.

const (
	modelProjects = 2
	modelFiles    = 6 // of a worker, in a project
	modelSessions = 5 // of a worker, that are kept
	modelHot      = 2
	modelTrace    = 40 // how many steps a failure shows
)

// A past is what a worker knows of one of its sessions.
type past struct {
	Project int
	State   State
	Base    map[string]string // what the project had when the session last knew; missing: nothing
	Seen    map[string]int    // when that was; missing: Born
	Born    int
	Upper   map[string]string // what was written; "" is a deletion
	Settled map[string]bool   // of it, what was committed or dropped
	Done    []doneDeed
}

// commits is how many of the deeds are commits.
func (p *past) commits() (n int) {
	for _, d := range p.Done {
		if d.Kind == CommitDeed {
			n++
		}
	}
	return n
}

// A doneDeed is a commit, a drop or a discard.
type doneDeed struct {
	Kind  Deed
	Clock int
	Paths map[string]string // what it made of them
	Was   map[string]string
}

// A recall is all that a worker knows.
type recall struct {
	ID, Clock, Value int
	Files            [modelProjects]map[string]string // without the hot ones
	Touched          [modelProjects]map[string][]touch
	Sessions         map[string]*past
	Step             *step // under way
	Trace            []step
}

// A touch is a change to a file of the project.
type touch struct {
	Clock   int
	Session string
}

// A step changes something.
type step struct {
	Op      string
	Session string
	Paths   []string
	Value   string
}

// A modelWorker does one step after the other.
type modelWorker struct {
	recall
	dir   string // of everything
	rnd   *rand.Rand
	open  map[string]*Session
	marks map[string]string // by session: a file in its scratch directory
	spare *Spare
}

func (w *modelWorker) state() string        { return filepath.Join(w.dir, "state") }
func (w *modelWorker) project(i int) string { return filepath.Join(w.dir, "p"+fmt.Sprint(i)) }
func (w *modelWorker) log() string          { return filepath.Join(w.dir, "log", fmt.Sprint(w.ID)) }
func (w *modelWorker) name() string         { return fmt.Sprintf("worker%d", w.ID) }

// loadWorker begins as a worker, or goes on as one.
func loadWorker(dir string, id int, seed uint64) (*modelWorker, error) {
	w := &modelWorker{dir: dir, rnd: rand.New(rand.NewPCG(seed, uint64(id))), open: map[string]*Session{}, marks: map[string]string{}}
	w.ID, w.Sessions = id, map[string]*past{}
	for i := range modelProjects {
		w.Files[i], w.Touched[i] = map[string]string{}, map[string][]touch{}
	}
	data, err := os.ReadFile(w.log())
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &w.recall)
	}
	if err == nil && w.Step != nil {
		if err = w.resolve(); err != nil {
			err = fmt.Errorf("after a kill in %+v: %w\n%s", *w.Step, err, w.trace())
		}
	}
	return w, err
}

func (w *modelWorker) save() error {
	data, err := json.Marshal(w.recall)
	if err != nil {
		return err
	}
	tmp := w.log() + ".new"
	return errors.Join(os.WriteFile(tmp, data, 0o600), os.Rename(tmp, w.log()))
}

// begin writes down what will be done next, and end writes down that it was done.
func (w *modelWorker) begin(s step) error {
	w.Step, w.Trace = &s, append(w.Trace, s)
	if len(w.Trace) > modelTrace {
		w.Trace = w.Trace[len(w.Trace)-modelTrace:]
	}
	return w.save()
}

// trace is what the worker did last.
func (w *modelWorker) trace() string {
	var b strings.Builder
	for _, s := range w.Trace {
		fmt.Fprintf(&b, "\t%+v\n", s)
	}
	return b.String()
}

func (w *modelWorker) end() error { w.Step = nil; return w.save() }

// paths are the files that a worker may change.
func (w *modelWorker) paths() (list []string) {
	for i := range modelFiles {
		list = append(list, fmt.Sprintf("shared/w%d-%d", w.ID, i), fmt.Sprintf("new%d-%d/sub/f", w.ID, i))
	}
	for i := range modelHot {
		list = append(list, fmt.Sprintf("shared/hot%d", i))
	}
	return list
}

func hot(path string) bool { return strings.HasPrefix(path, "shared/hot") }

// changed returns what a commit of a session would change. A deletion of something that is gone already is no change.
func (w *modelWorker) changed(id string) (list []string) {
	p := w.Sessions[id]
	for path, value := range p.Upper {
		if !p.Settled[path] && (value != "" || w.Files[p.Project][path] != "") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// conflict tells whether a commit of a path may, and whether it must be refused.
func (w *modelWorker) conflict(id, path string, after int, have string) (may, must bool) {
	p := w.Sessions[id]
	if hot(path) {
		return true, false
	}
	may = w.touchedSince(id, path, after)
	// Of what is gone from the project only overlayfs knows whether the session had it.
	now := w.Files[p.Project][path]
	return may, may && now != "" && now != have
}

// touchedSince reports whether another session changed a path in the project.
func (w *modelWorker) touchedSince(id, path string, after int) bool {
	return slices.ContainsFunc(w.Touched[w.Sessions[id].Project][path], func(t touch) bool { return t.Session != id && t.Clock > after })
}

func (w *modelWorker) refused(id string, paths []string) (may, must bool) {
	p := w.Sessions[id]
	for _, path := range paths {
		after, ok := p.Seen[path]
		if !ok {
			after = p.Born
		}
		a, b := w.conflict(id, path, after, p.Base[path])
		may, must = may || a, must || b
	}
	return may, must
}

// applied notes a commit.
func (w *modelWorker) applied(id string, paths []string) {
	p := w.Sessions[id]
	deed := doneDeed{Kind: CommitDeed, Paths: map[string]string{}, Was: map[string]string{}}
	for _, path := range paths {
		deed.Was[path], deed.Paths[path] = w.Files[p.Project][path], p.Upper[path]
		w.touch(id, path, p.Upper[path])
		p.Settled[path] = true
	}
	deed.Clock = w.Clock
	p.Done = append(p.Done, deed)
	if len(w.changed(id)) == 0 {
		p.State = Committed
	}
}

func (w *modelWorker) touch(id, path, value string) {
	p := w.Sessions[id]
	w.Clock++
	w.Touched[p.Project][path] = append(w.Touched[p.Project][path], touch{w.Clock, id})
	p.Seen[path], p.Base[path] = w.Clock, value
	if hot(path) {
		return
	}
	if w.Files[p.Project][path] = value; value == "" {
		delete(w.Files[p.Project], path)
	}
}

// undone notes that the last deed was taken back.
func (w *modelWorker) undone(id string) {
	p := w.Sessions[id]
	deed := p.Done[len(p.Done)-1]
	p.Done = p.Done[:len(p.Done)-1]
	for path, value := range deed.Paths {
		if deed.Kind == CommitDeed {
			w.touch(id, path, deed.Was[path])
		}
		if p.Upper[path] == value {
			p.Settled[path] = false
		}
	}
	p.State = Kept
}

func (w *modelWorker) dropped(id string, paths []string) {
	p := w.Sessions[id]
	if slices.Equal(paths, w.changed(id)) {
		p.State = Committed
		if p.commits() == 0 {
			p.State = Discarded
		}
	}
	d := doneDeed{Kind: DropDeed, Paths: map[string]string{}}
	for _, path := range paths {
		p.Settled[path] = true
		d.Paths[path] = p.Upper[path]
	}
	p.Done = append(p.Done, d)
}

func (w *modelWorker) discarded(id string) {
	p := w.Sessions[id]
	p.State, p.Done = Discarded, append(p.Done, doneDeed{Kind: DiscardDeed})
}

// resolve finds out what became of a step whose process was killed: all or nothing of it was done.
func (w *modelWorker) resolve() error {
	st := *w.Step
	if st.Op == "create" {
		for info, err := range List(w.state()) {
			if err != nil {
				return err
			}
			if len(info.Command) == 1 && info.Command[0] == w.name() && w.Sessions[info.ID] == nil {
				for i := range modelProjects {
					if info.Roots[0].Path == w.project(i) {
						w.born(info.ID, i)
					}
				}
			}
		}
		return w.end()
	}
	p := w.Sessions[st.Session]
	s, err := Open(w.state(), st.Session)
	if st.Op == "remove" && errors.Is(err, fs.ErrNotExist) {
		delete(w.Sessions, st.Session)
		return w.end()
	}
	if err != nil {
		return err
	}
	defer s.Close()
	info := s.Info()
	switch st.Op {
	case "write":
		data, err := os.ReadFile(filepath.Join(info.Roots[0].Upper, st.Paths[0]))
		deleted := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO)
		if !deleted && err == nil && string(data) == st.Value || deleted && st.Value == "" {
			w.wrote(st.Session, st.Paths[0], st.Value)
		} else if deleted && p.Upper[st.Paths[0]] != "" {
			// The file was removed, and its whiteout not made yet.
			delete(p.Upper, st.Paths[0])
			delete(p.Settled, st.Paths[0])
		} else if top, _, _ := strings.Cut(st.Paths[0], "/"); top != "shared" && !has(p.Upper, st.Paths[0]) {
			if err := os.RemoveAll(filepath.Join(info.Roots[0].Upper, top)); err != nil { // a new directory without the file
				return err
			}
		}
	case "commit":
		if info.Commits == p.commits()+1 {
			w.applied(st.Session, st.Paths)
			w.Trace = append(w.Trace, step{Op: "it was committed"})
		}
	case "undo":
		undone := info.Commits == p.commits()-1
		if d := p.Done[len(p.Done)-1]; d.Kind == DiscardDeed || d.Kind == DropDeed && p.State != Kept {
			undone = info.State == Kept
		} else if d.Kind == DropDeed {
			still, err := changedNow(s)
			if err != nil {
				return err
			}
			undone = still[st.Paths[0]]
		}
		if undone {
			w.undone(st.Session)
		}
	case "drop":
		still, err := changedNow(s)
		if err != nil {
			return err
		}
		if !still[st.Paths[0]] {
			w.dropped(st.Session, st.Paths)
		}
	case "discard":
		if info.State == Discarded {
			w.discarded(st.Session)
		}
	}
	// A commit that was taken back has touched the files.
	for _, path := range st.Paths {
		if st.Op == "commit" || st.Op == "undo" {
			w.Clock++
			w.Touched[p.Project][path] = append(w.Touched[p.Project][path], touch{w.Clock, st.Session})
		}
	}
	if err := w.check(st.Session, s); err != nil {
		return err
	}
	return w.end()
}

func changedNow(s *Session) (map[string]bool, error) {
	list := map[string]bool{}
	if s.State() != Kept {
		return list, nil
	}
	for c, err := range s.Changes() {
		if err != nil {
			return nil, err
		}
		list[c.Path] = true
	}
	return list, nil
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

func (w *modelWorker) born(id string, project int) {
	w.Clock++
	w.Sessions[id] = &past{Project: project, Born: w.Clock, Base: maps.Clone(w.Files[project]),
		Seen: map[string]int{}, Upper: map[string]string{}, Settled: map[string]bool{}}
}

func (w *modelWorker) wrote(id, path, value string) {
	p := w.Sessions[id]
	p.Upper[path], p.Settled[path] = value, false
	if value == "" && p.Base[path] == "" {
		delete(p.Upper, path) // nothing was there, and nothing is
		delete(p.Settled, path)
	}
}

// check compares a session, and the worker's files in its project, with the model.
func (w *modelWorker) check(id string, s *Session) error {
	p := w.Sessions[id]
	info := s.Info()
	deed := NoDeed
	if n := len(p.Done); n > 0 {
		deed = p.Done[n-1].Kind
	}
	if info.State != p.State || info.Commits != p.commits() || info.Undo != deed {
		return fmt.Errorf("session %s is %s with %d commits, the last deed a %s; not %s with %d, a %s", id, info.State, info.Commits, info.Undo, p.State, p.commits(), deed)
	}
	if p.State == Kept {
		var got []string
		for c, err := range s.Changes() {
			if err != nil {
				return err
			}
			if c.Kind == Deleted && !c.Mode.IsDir() || c.Mode.IsRegular() {
				got = append(got, c.Path)
			}
		}
		slices.Sort(got)
		// A deletion of something that is gone already, and a change to what the project has already, are no
		// changes.
		want := slices.DeleteFunc(w.changed(id), func(path string) bool {
			return !slices.Contains(got, path) && (hot(path) || w.Files[p.Project][path] == p.Upper[path])
		})
		if !slices.Equal(got, want) {
			return fmt.Errorf("session %s has changed %q, not %q", id, got, want)
		}
	}
	if mark := w.marks[id]; mark != "" {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("another process changed the session's scratch directory: %w", err)
		}
	}
	return w.checkFiles(p.Project)
}

func (w *modelWorker) checkFiles(project int) error {
	for _, path := range w.paths() {
		data, err := os.ReadFile(filepath.Join(w.project(project), path))
		if hot(path) {
			if text := string(data); err != nil || text != "hot" && !strings.HasPrefix(text, "value ") {
				return fmt.Errorf("%s: %q, %w", path, data, err)
			}
			continue
		}
		want, ok := w.Files[project][path]
		if ok != (err == nil) || want != string(data) {
			return fmt.Errorf("%s is %q (%v), not %q", path, data, err, want)
		}
	}
	return nil
}

// conflictsIn are the paths that an error is about; nil: it is not a conflict.
func conflictsIn(err error) (list []string) {
	if e, ok := errors.AsType[*ConflictError](err); ok {
		for _, c := range e.Conflicts {
			path := c.Path
			if top, rest, _ := strings.Cut(path, "/"); strings.HasPrefix(top, "new") && (rest == "" || rest == "sub") {
				path = top + "/sub/f" // a directory that came or went with its file
			}
			list = append(list, path)
		}
	}
	return list
}

// meanwhile asks a session about itself from another goroutine while f does something with it.
func meanwhile(s *Session, f func() error) error {
	done := make(chan struct{})
	end := make(chan struct{})
	go func() {
		defer close(end)
		for {
			_, _, _, _ = s.Info(), s.Mounts(), s.Roots(), s.State()
			for range s.Changes() {
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	err := f()
	close(done)
	<-end
	return err
}

var errModel = errors.New("not as in the model")

// commit commits a part of a session, or all of it.
func (w *modelWorker) commit(id string, s *Session, paths []string, all bool) error {
	may, must := w.refused(id, paths)
	if err := w.begin(step{Op: "commit", Session: id, Paths: paths}); err != nil {
		return err
	}
	o := CommitOptions{Paths: paths}
	if all {
		o.Paths = nil
	}
	err := meanwhile(s, func() error { return s.CommitWith(context.Background(), o) })
	switch {
	case err == nil && must:
		return fmt.Errorf("%w: commit of %q in %s overwrote a change", errModel, paths, id)
	case err == nil:
		w.applied(id, paths)
		w.Trace[len(w.Trace)-1].Op = "committed"
	case conflictsIn(err) != nil && may:
		for _, path := range conflictsIn(err) {
			if ok, _ := w.refused(id, []string{path}); !ok {
				return fmt.Errorf("%w: commit of %s: %w", errModel, id, err)
			}
		}
	case errors.Is(err, ErrNoChange) && may: // the project has it already
	default:
		return fmt.Errorf("%w: commit of %q in %s: %w", errModel, paths, id, err)
	}
	return w.end()
}

func (w *modelWorker) undo(id string, s *Session) error {
	p := w.Sessions[id]
	deed := p.Done[len(p.Done)-1]
	may, must := false, false
	for path, value := range deed.Paths {
		if deed.Kind != CommitDeed {
			break
		}
		a, b := w.conflict(id, path, deed.Clock, value)
		may, must = may || a, must || b
	}
	if err := w.begin(step{Op: "undo", Session: id, Paths: slices.Collect(maps.Keys(deed.Paths))}); err != nil {
		return err
	}
	err := meanwhile(s, func() error { return s.Undo(context.Background(), UndoOptions{}) })
	switch {
	case err == nil && must:
		return fmt.Errorf("%w: undo of %s overwrote a change", errModel, id)
	case err == nil:
		w.undone(id)
		w.Trace[len(w.Trace)-1].Op = "undone"
	case conflictsIn(err) != nil && may:
	case errors.Is(err, tx.ErrAside) && may:
		// Somebody wrote to a hot file at the same moment: it is kept, and the rest is as wished for.
		if s.Info().Commits < p.commits() {
			w.undone(id)
		}
	default:
		return fmt.Errorf("%w: undo of %s: %w", errModel, id, err)
	}
	return w.end()
}
