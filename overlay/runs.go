//go:build linux

package overlay

import (
	"errors"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/owndir"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/runslater"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A runsFinder says whether changes run later. It opens files only when it has to look at them.
type runsFinder struct {
	s     *Session
	again bool // surveys of this session's other listings are good enough
	ahead bool // surveys are made beside other work, see search
	c     runslater.Classifier
	sides []openSides

	protected protection
	lost      map[int]bool // by root: its own repository is gone, see replaced

	searches map[string]*search // by root

	merged map[string]string // by path: the text of both sides, which the session's version does not have

	// blind is why a file that others lead to may have been missed: a directory in which it could be cannot be
	// listed. Then any change may run later.
	blind error

	// failed is an error of the machine, not of permissions: a second try may find what was missed. It ends the
	// walk; otherwise a commit would hold back everything that blind makes suspicious, and do only half of its
	// work.
	failed error
}

// newRunsFinder makes one. The caller does not hold s.mu.
func newRunsFinder(s *Session, again bool) *runsFinder {
	s.mu.Lock()
	meta := s.meta // never changed, but replaced
	s.mu.Unlock()
	f := &runsFinder{s: s, again: again, sides: make([]openSides, len(s.roots)), protected: protectedBy(meta)}
	for _, r := range s.roots {
		f.c.Roots = append(f.c.Roots, r.Path)
	}
	f.c.Old, f.c.New = &runsView{f: f}, &runsView{f: f, now: true}
	home, _ := homedir.Find()
	own := []string{filepath.Dir(s.path), homedir.State(home), homedir.Data(home), homedir.Cache(home)}
	f.c.Own = func(path string) (string, bool) { return owndir.Within(path, own) }
	return f
}

func (f *runsFinder) close() {
	f.awaitSearches()
	f.leave()
	for i := range f.sides {
		f.sides[i].close()
	}
}

func (f *runsFinder) leave() {
	for _, v := range [...]runslater.View{f.c.Old, f.c.New} {
		v.(*runsView).leave()
	}
}

// mark sets n.Runs. repos are the work trees that the walk has found.
func (f *runsFinder) mark(n *node, repos []string) {
	for _, dir := range repos {
		f.c.Repository(dir)
	}
	n.Runs, n.part = "", ""
	f.find(n)
	if n.Runs == "" && n.Kind != 0 && !n.TimeOnly && f.replaced(n) {
		n.Runs, n.part = Protected, gitDir
	}
}

// find is mark for one object alone.
func (f *runsFinder) find(n *node) {
	if n.Kind != 0 && !n.TimeOnly && f.protects(n) {
		n.Runs = Protected
		return
	}
	if n.HasLow && !n.TimeOnly && (n.Kind == Deleted || n.Up.IsDir() && !n.Low.IsDir()) {
		if n.Runs = runslater.Gone(path.Base(n.Path)); n.Path == gitDir && n.Low.IsDir() {
			n.Runs = Protected // an automatic commit would remove the history of all work
		}
	}
	given := f.given(n)
	if n.Runs != "" || n.Kind == 0 || n.Kind == Deleted || n.TimeOnly || n.Up.IsDir() && !given && (n.Kind == Modified || !runslater.MayCount(n.Path)) {
		return
	}
	kind := runslater.KindOf(n.Up.Mode)
	if kind != runslater.Link && !(given && n.Up.IsDir()) && f.c.Plain(n.Root, n.Path) && f.blind == nil {
		return
	}
	n.Runs = f.c.Reason(runslater.Change{
		Path: filepath.Join(n.Root, n.Path), Kind: kind,
		Content:    n.Kind != Modified || n.Aspects&Content != 0,
		Executable: n.Aspects&Mode != 0 && n.Up.Perm()&^n.Low.Perm()&0o111 != 0,
		Given:      given,
	})
	if n.Runs == "" && f.blind != nil {
		n.Runs = "unknown, since a directory cannot be listed: " + f.blind.Error()
	}
}

// merge says why a file runs later if a commit makes it of both sides. Each of them alone can be harmless.
func (f *runsFinder) merge(n *node, text []byte) string {
	m := *n
	m.Aspects |= Content
	if f.merged == nil {
		f.merged = map[string]string{}
	}
	f.merged[filepath.Join(n.Root, n.Path)] = string(text)
	f.mark(&m, nil)
	return m.Runs
}

// lend lets f use the trees of a root, until it gives them back.
func (f *runsFinder) lend(root int, up, low tree.Tree) {
	if f.sides[root].up == nil {
		f.sides[root] = openSides{up: locked(up), low: low, lent: true}
	}
}

func (f *runsFinder) giveBack(root int) {
	if f.sides[root].lent {
		f.leave()
		f.sides[root] = openSides{}
	}
}

// locked returns a tree that makes nothing accessible, because a walk would see other modes.
func locked(t tree.Tree) tree.Tree {
	if real, ok := t.(*tree.Real); ok {
		t := *real
		t.Unlock = false
		return &t
	}
	return t
}

// A runsView is one state of all roots.
type runsView struct {
	f   *runsFinder
	now bool // with the session's changes

	dir   tree.Dir // that was looked into last; nil: nothing is there
	dirAt string
}

func (v *runsView) leave() {
	if v.dir != nil {
		v.dir.Close()
	}
	v.dir, v.dirAt = nil, ""
}

// tree is the view of one root; it is not closed.
func (v *runsView) tree(i int) (tree.Tree, error) {
	side := &v.f.sides[i]
	opened, err := side.open(v.f.s, i)
	if err != nil {
		return nil, err
	}
	if opened {
		side.up = locked(side.up)
	}
	if v.now {
		return &tree.Merged{Layers: []tree.Tree{side.up, side.low}}, nil
	}
	return side.low, nil
}

// open opens the directory at a path; it is valid until the next call. Neither a directory nor an error: nothing is
// there.
func (v *runsView) open(p string) (tree.Dir, error) {
	if v.dirAt == p {
		return v.dir, nil
	}
	v.leave()
	at := -1
	for i, r := range v.f.s.roots {
		if paths.Inside(p, r.Path) && (at < 0 || len(r.Path) > len(v.f.s.roots[at].Path)) {
			at = i
		}
	}
	if at < 0 {
		return nil, nil
	}
	t, err := v.tree(at)
	if err != nil {
		return nil, err
	}
	rel := path.Clean(strings.TrimPrefix(strings.TrimPrefix(p, v.f.s.roots[at].Path), "/"))
	d, err := t.At(rel)
	switch err {
	case nil:
		v.dir, v.dirAt = d, p
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		v.dirAt, err = p, nil
	}
	return v.dir, err
}

// look returns what is at a path, and the directory that contains it.
func (v *runsView) look(p string) (d tree.Dir, name string, st tree.Stat, ok bool, err error) {
	name = path.Base(p)
	if d, err = v.open(path.Dir(p)); d == nil {
		return nil, name, st, false, err
	}
	st, ok, err = d.Lstat(name)
	return d, name, st, ok && err == nil && !st.IsWhiteout(), err
}

// Kind is for runslater.View. If a path cannot be looked up, anything may be there.
func (v *runsView) Kind(p string) runslater.Kind {
	_, _, st, ok, err := v.look(p)
	switch {
	case ok:
		return runslater.KindOf(st.Mode)
	case err != nil:
		return runslater.Other
	}
	for _, r := range v.f.s.roots {
		if r.Path == p {
			return runslater.Directory
		}
	}
	return runslater.Missing
}

// Read is for runslater.View.
func (v *runsView) Read(p string) (string, bool) {
	if text, ok := v.f.merged[p]; ok && v.now {
		return text, int64(len(text)) <= runslater.MaxFile(p)
	}
	d, name, st, ok, _ := v.look(p)
	if !ok || !st.IsReg() || st.Size > runslater.MaxFile(p) {
		return "", false
	}
	f, err := d.File(name, st)
	if err != nil {
		return "", false
	}
	defer f.Close()
	text := make([]byte, st.Size)
	if err := tree.ReadFull(f.Handle, text, 0); err != nil {
		return "", false
	}
	return string(text), true
}

// Target is for runslater.View.
func (v *runsView) Target(p string) string {
	d, name, st, ok, _ := v.look(p)
	if !ok || st.Typ() != unix.S_IFLNK {
		return ""
	}
	text, err := d.Link(name, st)
	if err != nil {
		return ""
	}
	return text
}

// Names is for runslater.View. It lists all of a directory, however large: names that it omitted could not be held
// back.
func (v *runsView) Names(p string) (names []string) {
	d, err := v.open(p)
	if d != nil {
		names, err = d.Names()
	}
	v.overlook(p, err)
	return names
}

// Survey is for runslater.View.
func (v *runsView) Survey(p, name string, want func(string) bool) (names, holding []string) {
	sv, err := v.survey(p, name, want)
	v.overlook(p, err)
	if sv == nil || err != nil {
		return nil, nil
	}
	for _, dir := range sv.Maybe {
		// It follows no link, and enters no mount.
		if v.Kind(path.Join(p, dir, name)) != runslater.Missing {
			holding = append(holding, dir)
		}
	}
	return sv.Names, holding
}

// survey returns the survey of a directory. Nil, without an error: it is not there, or being searched.
func (v *runsView) survey(p, name string, want func(string) bool) (*tree.Survey, error) {
	if s := v.f.searches[p]; s != nil {
		<-s.done
		if s.err == nil {
			v.f.learn(p, s.sv)
		}
		return s.sv, s.err
	}
	d, err := v.open(p)
	if d == nil || err != nil {
		return nil, err
	}
	if sv := v.f.known(d, p); sv != nil {
		return sv, nil
	}
	if v.f.ahead {
		v.f.search(p, d, name, want)
		v.dir, v.dirAt = nil, ""
		return nil, nil
	}
	sv, err := tree.SurveyOf(d, name, want, runtime.GOMAXPROCS(0))
	if err == nil {
		v.f.learn(p, sv)
	}
	return sv, err
}

// overlook records an error of listing a directory, if there is one.
func (v *runsView) overlook(p string, err error) {
	if err == nil {
		return
	}
	e := &Error{Op: "list", Path: p, Err: err}
	if v.f.blind == nil {
		v.f.blind = e
	}
	for _, of := range [...]error{unix.EIO, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if v.f.failed == nil && errors.Is(err, of) {
			v.f.failed = e
		}
	}
}

// known returns the survey of a root from an earlier listing. Nil: there is none that is still valid.
func (f *runsFinder) known(d tree.Dir, root string) *tree.Survey {
	if !f.again {
		return nil
	}
	f.s.mu.Lock()
	sv := f.s.surveys[root]
	f.s.mu.Unlock()
	if sv == nil || !sv.Still(d) {
		return nil
	}
	return sv
}

// learn keeps a survey of a root for the next listing.
func (f *runsFinder) learn(root string, sv *tree.Survey) {
	if !sv.Keep {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.surveys == nil {
		f.s.surveys = map[string]*tree.Survey{}
	}
	f.s.surveys[root] = sv
}
