package overlay

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Preference says what a commit does where both the session and somebody outside
// it changed an object. The zero Preference is to do nothing at all and tell.
type Preference uint8

// What to do about conflicts.
const (
	Refuse Preference = iota // a *ConflictError, and nothing is done
	Theirs                   // the session's version; the project's is backed up
	Ours                     // the project's version; the session's change is dropped
	Merge                    // both, for text; Refuse where that does not work out
)

// CommitOptions say what to commit, and how. The zero value commits all changes but
// special ones, and refuses conflicts.
type CommitOptions struct {
	// Paths are what to commit: everything at and below each, absolute or relative to
	// a root. They may be patterns (*, ?, [a-z], and ** for any number of
	// directories). One that nothing changed at is ErrNoChange. None: everything.
	Paths []string

	// Exclude are paths or patterns that are not committed, whatever Paths says. One
	// without a slash stands for objects of that name in any directory.
	Exclude []string

	// Prefer decides conflicts. Zero: Refuse.
	Prefer Preference

	// AllowSpecial commits setuid and setgid files, files with capabilities and device
	// nodes too. False: they are a *SpecialError, and nothing is done.
	AllowSpecial bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)
}

// Progress is how far a commit has come.
type Progress struct {
	Done, Total int   // objects
	Bytes       int64 // that were copied
}

// UndoOptions say how to take a commit back. The zero value refuses conflicts.
type UndoOptions struct {
	// Force takes it back even where the project was changed since; what is in the
	// project now is kept in the session's backup. False: a *ConflictError.
	Force bool

	// Progress is called now and then, from one goroutine. Nil: it is not.
	Progress func(Progress)
}

// Commit is CommitWith for paths.
func (s *Session) Commit(ctx context.Context, paths ...string) error {
	return s.CommitWith(ctx, CommitOptions{Paths: paths})
}

// CommitWith puts changes into the project: all or nothing of what is chosen. New
// directories above a chosen path are committed with it.
//
// A *SpecialError or *ConflictError, and every other error but a *CommitError,
// means that the project is as it was. So does a context that ends while new
// objects are being written; once they are being renamed into place it is not
// looked at any more.
//
// When no change is left the session is Committed; until then it is Kept, and Changes
// yields the rest. Undo takes it back.
func (s *Session) CommitWith(ctx context.Context, o CommitOptions) error {
	const op = "commit"
	s.work.Lock()
	defer s.work.Unlock()
	s.mu.Lock()
	err := s.usable(op, true)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.checkBase(op); err != nil {
		return err
	}
	c, err := s.planCommit(ctx, o.Paths)
	if err != nil {
		return err
	}
	defer c.close()
	return c.run(ctx)
}

// A place is a path in one of the roots.
type place struct {
	root int
	path string // relative
}

// A commit is one call of Commit.
type commit struct {
	s      *Session
	nodes  []node // what was chosen, in path order
	full   bool   // nothing else is left in the session
	layers []layer
	tag    string // begins all temporary names

	settled map[place]settled
	steps   []*step
	made    []place           // new directories whose mode and time are still to be set
	dirs    map[place]madeDir // what they are to be given
	links   map[int]map[inode]link
	twins   []map[inode]twin
	widened map[door]widened // directories that were made accessible

	// ours are objects of the project that nobody had changed when we did: their
	// ctime is no sign of a conflict later.
	ours map[place]bool

	seq  int
	many bool // too many objects to wait for the disk for each

	plain bool // rename only as every file system can; for tests
}

// A layer holds the two directories of a root, and the one that was used last
// on either side.
type layer struct {
	up, low  *handle
	base     metaRoot
	lastUp   *handle
	lastLow  *handle
	pathUp   string
	pathLow  string
	replaced bool // the root is not the directory that the session was made for
}

// A link is the first name under which a file with several was put.
type link struct {
	at  place
	ino uint64
}

// fsyncMost is up to how many objects are flushed one by one; for more, their
// whole file system is, which then is faster.
const fsyncMost = 64

// planCommit compares, and chooses what to commit; it changes nothing.
func (s *Session) planCommit(ctx context.Context, paths []string) (*commit, error) {
	const op = "commit"
	c := &commit{s: s, dirs: map[place]madeDir{}, widened: map[door]widened{}, links: map[int]map[inode]link{}, ours: map[place]bool{}, settled: map[place]settled{}}
	c.twins = make([]map[inode]twin, len(s.roots))
	for i := range c.twins {
		c.twins[i] = map[inode]twin{}
	}
	var all []node
	for n, err := range s.nodes(walkOptions{twins: c.twins}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	var err error
	if c.nodes, err = s.choose(all, paths); err != nil {
		return nil, err
	}
	c.full = len(c.nodes) == len(all)
	c.many = len(c.nodes) > fsyncMost
	_, random, _ := strings.Cut(s.id, "-")
	c.tag = ".nsrun-" + random + "-" + newTag() + "-"
	s.mu.Lock()
	for _, st := range s.meta.Settled {
		c.settled[place{st.Root, string(st.Path)}] = st
	}
	s.mu.Unlock()
	for i := range s.roots {
		up, low, err := s.openLayers(i)
		if err != nil {
			c.close()
			return nil, err
		}
		l := layer{up: up, low: low, base: s.meta.Roots[i]}
		c.layers = append(c.layers, l)
		st, err := l.low.stat()
		if err != nil {
			c.close()
			return nil, &Error{Op: op, Path: s.roots[i].Path, Err: err}
		}
		c.layers[i].replaced = st.ino != l.base.Ino
	}
	return c, nil
}

func (c *commit) close() {
	for i := range c.layers {
		l := &c.layers[i]
		for _, h := range []*handle{l.up, l.low, l.lastUp, l.lastLow} {
			h.close()
		}
	}
}

// choose returns the nodes that paths mean, and the new directories above them.
func (s *Session) choose(all []node, paths []string) ([]node, error) {
	if len(paths) == 0 {
		return all, nil
	}
	chosen := make([]bool, len(all))
	for _, p := range paths {
		found := -1 // the root that has it
		for _, at := range s.places(p) {
			hit := false
			i, _ := slices.BinarySearchFunc(all, at, func(n node, at place) int {
				if n.root != at.root {
					return n.root - at.root
				}
				return comparePaths(n.Path, at.path)
			})
			for ; i < len(all) && all[i].root == at.root && under(all[i].Path, at.path); i++ {
				chosen[i], hit = true, true
			}
			if hit && found >= 0 {
				return nil, &Error{Op: "choose", Path: p, Err: fmt.Errorf("it is in more than one root: %s and %s",
					quotePath(s.roots[found].Path), quotePath(s.roots[at.root].Path))}
			}
			if hit {
				found = at.root
			}
		}
		if found < 0 {
			return nil, &Error{Op: "choose", Path: p, Err: ErrNoChange}
		}
	}
	// A new directory stands before everything in it.
	need := map[place]bool{}
	for i, n := range slices.Backward(all) {
		if !chosen[i] && need[place{n.root, n.Path}] && n.up.isDir() && n.Kind != Modified {
			chosen[i] = true
		}
		if chosen[i] {
			for dir := path.Dir(n.Path); dir != "."; dir = path.Dir(dir) {
				if need[place{n.root, dir}] {
					break
				}
				need[place{n.root, dir}] = true
			}
		}
	}
	var list []node
	for i, n := range all {
		if chosen[i] {
			list = append(list, n)
		}
	}
	return list, nil
}

// places returns what a user's path may mean.
func (s *Session) places(p string) []place {
	var list []place
	if !filepath.IsAbs(p) {
		if p = filepath.Clean(p); filepath.IsLocal(p) {
			for i := range s.roots {
				list = append(list, place{i, p})
			}
		}
		return list
	}
	p = filepath.Clean(p)
	for _, spelled := range []string{p, resolveParent(p)} {
		for i, r := range s.roots {
			if inside(spelled, r.Path) {
				rel := strings.TrimPrefix(strings.TrimPrefix(spelled, r.Path), "/")
				return []place{{i, path.Clean(rel)}}
			}
		}
	}
	return nil
}

// resolveParent resolves the links above the last name, as far as the path
// exists: the object itself may be gone, or be a link that is meant as such.
func resolveParent(p string) string {
	rest := ""
	for dir := p; dir != "/"; {
		var name string
		dir, name = filepath.Dir(dir), filepath.Base(dir)
		rest = filepath.Join(name, rest)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
	}
	return p
}

// run does all of it.
func (c *commit) run(ctx context.Context) (err error) {
	if err := c.checkSpecials(); err != nil {
		return err
	}
	if err := c.checkConflicts(ctx); err != nil {
		return err
	}
	err = c.stage(ctx)
	if err == nil {
		err = c.swap()
	}
	if err != nil {
		return c.failed(err)
	}
	// From here on the project is as the session wants it.
	tidy := c.tidy()
	relock := c.relock()
	record := c.record()
	if err := errors.Join(tidy, relock, record); err != nil {
		return &CommitError{Applied: c.applied(), Err: err}
	}
	return nil
}

// failed takes back what was done, and returns err or what is worse.
func (c *commit) failed(err error) error {
	undo := errors.Join(c.undo(), c.dropStaged())
	undo = errors.Join(undo, c.relock())
	if applied := c.applied(); len(applied) > 0 {
		_ = c.settle(false)
		return &CommitError{Applied: applied, Err: errors.Join(err, undo)}
	}
	if len(c.ours) > 0 {
		// If this cannot be written, the next commit sees a conflict that is
		// none, and does nothing: safe, and not worth hiding err for.
		_ = c.settle(false)
	}
	if undo != nil {
		err = errors.Join(err, undo)
	}
	return err
}

// applied lists what is in the project now.
func (c *commit) applied() []Change {
	var list []Change
	for _, st := range c.steps {
		if st.done {
			for _, n := range c.nodes[st.first:st.end] {
				list = append(list, n.Change)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Change) int {
		if a.Root != b.Root {
			return strings.Compare(a.Root, b.Root)
		}
		return comparePaths(a.Path, b.Path)
	})
	return list
}

// checkSpecials refuses what must never get into a project.
func (c *commit) checkSpecials() error {
	var list []Special
	for _, n := range c.nodes {
		if n.Special != "" {
			list = append(list, Special{Root: n.Root, Path: n.Path, Mode: n.Mode, Why: n.Special})
		}
	}
	if len(list) > 0 {
		return &SpecialError{list}
	}
	return nil
}

const (
	whyChanged  = "was changed in the project since the session began"
	whyBelow    = "was changed in the project since the session began, in a directory that the session removed"
	whyReplaced = "is another directory than when the session began"
	whyNow      = "is being changed in the project"
	whyMade     = "was made in the project meanwhile"
)

// checkConflicts looks for changes that were made in the project.
func (c *commit) checkConflicts(ctx context.Context) error {
	var list []Conflict
	add := func(n node, path, why string) {
		list = append(list, Conflict{Root: n.Root, Path: path, Why: why})
	}
	told := map[int]bool{}
	for _, n := range c.nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := &c.layers[n.root]
		if l.replaced {
			if !told[n.root] {
				told[n.root] = true
				add(n, ".", whyReplaced)
			}
			continue
		}
		if !n.hasLow {
			continue
		}
		if n.Path == "." {
			// The ctime of a root changes with every file made in it, and what
			// it was like is known. What could not be copied onto the upper
			// directory cannot be compared.
			if b := l.base; n.low.perm() != b.Mode {
				add(n, ".", whyChanged)
			}
			continue
		}
		if c.changed(place{n.root, n.Path}, n.low) {
			add(n, n.Path, whyChanged)
		}
		if n.low.isDir() && !(n.hasUp && n.up.isDir()) {
			err := c.below(place{n.root, n.Path}, func(p string, st stat) {
				if c.changed(place{n.root, p}, st) {
					add(n, p, whyBelow)
				}
			})
			if err != nil {
				return err
			}
		}
	}
	if len(list) > 0 {
		return &ConflictError{list}
	}
	return nil
}

// changed reports whether somebody else changed the project's object st since
// the session began.
func (c *commit) changed(at place, st stat) bool {
	if st.ctime <= c.s.meta.Created.UnixNano() {
		return false
	}
	own, ok := c.settled[at]
	return !ok || own.Lower != st.ctime
}

// below calls visit for everything in a directory of the project.
func (c *commit) below(at place, visit func(path string, st stat)) error {
	todo := []string{at.path}
	for len(todo) > 0 {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := func() error {
			d, err := c.layers[at.root].low.openDir(dir)
			if err != nil {
				return err
			}
			defer d.close()
			names, err := d.names()
			if err != nil {
				return err
			}
			slices.Sort(names)
			for _, name := range slices.Backward(names) {
				p := joinPath(dir, name)
				if len(p) > maxPath {
					return unix.ENAMETOOLONG
				}
				st, found, err := d.lstatIf(name)
				if err != nil {
					return err
				}
				if !found {
					continue
				}
				visit(p, st)
				if st.isDir() {
					todo = append(todo, p)
				}
			}
			return nil
		}()
		if err != nil {
			return &Error{Op: "check for conflicts", Path: c.abs(place{at.root, dir}), Err: err}
		}
	}
	return nil
}

func (c *commit) abs(at place) string { return filepath.Join(c.s.roots[at.root].Path, at.path) }

// record writes down what the commit did, and ends the session if that was all.
func (c *commit) record() error {
	if !c.full {
		return c.settle(true)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.s.end(Committed, true); err != nil {
		return &Error{Op: "end session", Path: c.s.path, Err: err}
	}
	return nil
}

// settle notes which objects were committed, and which ctimes are our doing.
func (c *commit) settle(durable bool) error {
	note := func(at place, upper int64, done bool) {
		st := settled{Root: at.root, Path: rawText(at.path), Upper: upper, Done: done}
		dir, name := splitPath(at.path)
		if at.path == "." {
			dir, name = ".", "."
		}
		if d, err := c.layers[at.root].low.open(dir, unix.O_PATH|unix.O_DIRECTORY); err == nil {
			if low, err := d.lstat(name); err == nil {
				st.Lower = low.ctime
			}
			d.close()
		}
		c.settled[at] = st
	}
	for at := range c.ours {
		old := c.settled[at]
		note(at, old.Upper, old.Done)
	}
	bases := map[int]stat{}
	for _, step := range c.steps {
		if !step.done {
			continue
		}
		for _, n := range c.nodes[step.first:step.end] {
			at := place{n.root, n.Path}
			switch {
			case n.Path == ".":
				bases[n.root] = n.up
				note(at, 0, false)
			case n.up.isDir():
				note(at, 0, false) // what is in it decides, every time
			case !n.hasUp:
				note(at, 0, true)
			default:
				note(at, n.up.ctime, true)
			}
		}
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	m := *s.meta
	m.Roots = slices.Clone(m.Roots)
	for i, st := range bases {
		m.Roots[i].Mode, m.Roots[i].UID, m.Roots[i].GID = st.perm(), st.uid, st.gid
	}
	m.Settled = m.Settled[:0:0]
	for _, st := range c.settled {
		m.Settled = append(m.Settled, st)
	}
	slices.SortFunc(m.Settled, func(a, b settled) int {
		if a.Root != b.Root {
			return a.Root - b.Root
		}
		return comparePaths(string(a.Path), string(b.Path))
	})
	if err := writeMeta(s.dir, &m, durable); err != nil {
		return &Error{Op: "write session's data", Path: s.path, Err: err}
	}
	s.meta = &m
	return nil
}

// conflictNow is the conflict that is found while renaming.
func (c *commit) conflictNow(n node, why string) error {
	return &ConflictError{[]Conflict{{Root: n.Root, Path: n.Path, Why: why}}}
}
