//go:build linux

package overlay

import (
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// maxPath bounds the paths that are looked at, in bytes: a little less than
	// the kernel takes, to leave room for a temporary name.
	maxPath = 4096 - 128

	// maxHeld bounds how many levels of directories a walk holds open; those
	// above are opened again when it comes back to them.
	maxHeld = 48
)

// A node is a Change with what was found on both sides.
type node struct {
	Change
	root    int
	up, low stat
	hasUp   bool // false for Deleted
	hasLow  bool // false for Added

	// timeOnly says that nothing but the modification time differs: no change that is
	// shown, but one that a commit makes. Kind is Modified, Aspects zero.
	timeOnly bool

	// origin says that an Added object was copied up from the project, where somebody
	// has deleted it since. Links and the like do not tell: false.
	origin bool

	// late are the objects in a directory of the project that c deleted or replaced
	// whose ctime is after the beginning of the session.
	late []found

	// merged is what a commit makes of a file that both sides changed. Nil: the
	// session's version.
	merged []byte

	// newest is the latest ctime of what is in such a directory and no directory itself;
	// at least one, if it was looked at.
	newest int64

	// deep says that what lies here, at a path that is too long for the kernel, was not looked at, and nothing
	// else is known of it.
	deep error

	// belowErr says why not all that is in such a directory could be looked at.
	belowErr error
}

// walkOptions say what is wanted of a walk beside the changes.
type walkOptions struct {
	twins []map[inode]twin // by root, to be filled; nil: not wanted
	times bool             // nodes that are timeOnly, too
	// retimed counts the files among those. Nil: nobody does.
	retimed *atomic.Int64
	// again says that nothing is decided by the walk: see survey.
	again bool
}

// Changes yields what differs between the session and the project now: root
// after root, within a root in path order, where a directory comes before what
// is in it and names are compared by their bytes. A deleted directory is one
// Change; a new one is a Change, and so is everything in it.
//
// What cannot be looked at is yielded as an error, with a zero Change; the walk
// goes on behind it.
//
// For Change.Runs, directories at the top of a root are searched for repositories by the first
// listing, and again when the root has got other names. A commit always searches.
func (s *Session) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var retimed atomic.Int64
		for n, err := range s.nodes(walkOptions{retimed: &retimed, again: true}) {
			if n.deep != nil {
				n.Change = Change{}
			}
			if !yield(n.Change, err) {
				return
			}
		}
		s.retimed.Store(retimed.Load())
	}
}

// Retimed is how many files the last complete walk of Changes met that differ in nothing but
// their modification time. That is no change, but a commit takes it over. Zero: there was no
// walk, or none.
func (s *Session) Retimed() int { return int(s.retimed.Load()) }

// An inode tells hard links apart from copies.
type inode struct{ dev, ino uint64 }

// A twin is a name whose object in the session is equal to the project's, and
// has other names in the session.
type twin struct {
	path string
	low  stat
}

// nodes walks all roots.
func (s *Session) nodes(o walkOptions) iter.Seq2[node, error] {
	return func(yield func(node, error) bool) {
		runs := newRunsFinder(s, o.again)
		defer runs.close()
		for i := range s.roots {
			w := walker{index: i, root: s.roots[i].Path, times: o.times, retimed: o.retimed}
			w.yield = func(n node, err error) bool {
				if err == nil {
					runs.mark(&n, w.takeRepos())
				}
				return yield(n, err)
			}
			if o.twins != nil {
				w.twins = o.twins[i]
			}
			if err := s.prepare(&w); err != nil {
				if !yield(node{}, err) {
					return
				}
				continue
			}
			ok := w.run()
			w.up.close()
			w.low.close()
			if !ok {
				return
			}
		}
	}
}

// prepare gives w the two sides of its root, and what is known of it.
func (s *Session) prepare(w *walker) (err error) {
	if w.up, w.low, err = s.trees(w.index); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.created = s.meta.Created.UnixNano()
	w.base = s.meta.Roots[w.index]
	for _, st := range s.meta.Settled {
		if st.Root == w.index && st.Done {
			if w.settled == nil {
				w.settled = map[string]settled{}
			}
			w.settled[string(st.Path)] = st
		}
	}
	return nil
}

// trees opens the two sides of root i. They have their own descriptors, so that a walk
// can go on while the session is used or closed.
func (s *Session) trees(i int) (up, low tree, err error) {
	const op = "open session"
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(op, false); err != nil {
		return nil, nil, err
	}
	root, err := s.root(i)
	if err != nil {
		return nil, nil, err
	}
	l, err := root.open(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, &Error{Op: op, Path: s.roots[i].Path, Err: err}
	}
	if low, err = s.lowerTree(i, l); err != nil {
		return nil, nil, err
	}
	if s.stored() && !(s.armed && s.meta.Engine == EngineTmpfs) {
		up, err = s.packed(i)
	} else {
		var u *handle
		u, err = s.area().open(upperName(i), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		t := &realTree{h: u, upper: true}
		if !s.readOnly {
			t.unlock = true
			if !s.stored() { // else the tmpfs is gone before anybody could mend modes in it
				t.book, t.unbook = s.bookFor(true, i), s.unnote
			}
		}
		up = t
	}
	if err != nil {
		low.close()
		return nil, nil, &Error{Op: op, Path: filepath.Join(s.areaPath(), upperName(i)), Err: err}
	}
	return up, low, nil
}

// A walker compares one root's upper directory with the project.
type walker struct {
	index   int
	root    string // for messages
	up, low tree
	created int64 // the beginning of the session, in nanoseconds since 1970
	base    metaRoot
	settled map[string]settled // by path, those that were committed
	twins   map[inode]twin     // nil: not wanted
	times   bool               // what differs in nothing but its time is wanted
	retimed *atomic.Int64      // counts files of that kind; nil: nobody does
	yield   func(node, error) bool

	held []node // directories above that are changes if anything in them is one

	mu    sync.Mutex
	spare [][]sight // buffers that are not in use
	repos []string  // directories that have a .git in the project, and nobody knows yet
}

// A frame is one directory of the upper layer during a walk.
type frame struct {
	path   string // relative to the root
	depth  int
	up     dir
	low    dir  // nil where the project has no directory
	opaque bool // what is below it in the project was not visible
	parked bool
}

// fail yields an error and reports whether the walk is to go on.
func (w *walker) fail(op, path string, err error) bool {
	if len(path) > 256 {
		path = path[:256] + "…"
	}
	return w.yield(node{}, &Error{Op: op, Path: filepath.Join(w.root, path), Err: err})
}

// run walks the root; it returns false when the consumer has had enough.
func (w *walker) run() bool {
	f := &frame{path: "."}
	defer f.close()
	n := node{root: w.index, hasUp: true, hasLow: true}
	var err error
	if f.up, err = w.up.top(); err == nil {
		n.up, err = f.up.stat()
	}
	if err == nil {
		f.low, err = w.low.top()
	}
	if err == nil {
		n.low, err = f.low.stat()
	}
	if err == nil {
		f.opaque, err = f.up.opaque()
	}
	if err != nil {
		return w.fail("open", ".", err)
	}
	// The root's mode and owner are compared with those the upper directory was
	// made with: the owner may have been out of the caller's power.
	was := n.low
	was.mode, was.uid, was.gid = was.typ()|w.base.Mode, w.base.UID, w.base.GID
	n.Aspects = accessAspects(n.up, was)
	w.fillModified(&n, ".")
	return w.emit(&n) && w.list(f)
}

// fill says of n what kind of change it is, and all that follows from that.
func (w *walker) fill(n *node, kind Kind, path string) {
	st := n.up
	if kind == Deleted {
		st = n.low
	}
	n.Kind, n.Root, n.Path, n.Mode = kind, w.root, path, st.fileMode()
	if st.isReg() {
		n.Size = st.size
		if kind != Deleted {
			n.Links, n.Sparse = st.nlink, st.blocks*512 < st.size
		}
	}
	if n.hasLow {
		n.OldMode = n.low.fileMode()
		if n.low.isReg() {
			n.OldSize = n.low.size
		}
		if n.low.isDir() && !(n.hasUp && n.up.isDir()) {
			w.below(n)
		}
	}
	if n.hasUp && n.Special == "" {
		n.Special = special(n.up)
	}
	if kind != Modified && kind != Deleted && n.Special == "" {
		n.Special = endless(n.up)
	}
}

// fillModified is fill for an object that both sides have with the same type; there
// may be no change.
func (w *walker) fillModified(n *node, path string) {
	if w.retimed != nil && n.Aspects == 0 && !n.up.isDir() && n.up.mtime != n.low.mtime {
		w.retimed.Add(1)
	}
	switch {
	case n.Aspects != 0:
	case w.times && n.up.mtime != n.low.mtime:
		n.timeOnly = true
	default:
		return
	}
	w.fill(n, Modified, path)
}

// emit yields n if it is a change, after the directories above that are held back.
func (w *walker) emit(n *node) bool {
	if n.Kind == 0 {
		return true
	}
	for _, dir := range w.held {
		if !w.yield(dir, nil) {
			return false
		}
	}
	w.held = w.held[:0]
	return w.yield(*n, nil)
}

// special says why an object gives its user more than a file does.
func special(st stat) string {
	switch typ := st.typ(); {
	case typ == unix.S_IFCHR || typ == unix.S_IFBLK:
		return "is a device node"
	case st.mode&unix.S_ISUID != 0:
		return "is setuid"
	// On a directory the bit gives nobody anything: new files get its group.
	case st.mode&unix.S_ISGID != 0 && typ != unix.S_IFDIR:
		return "is setgid"
	}
	return ""
}

// endless says why a new object is none that programs expect: who reads it, as a build or a search
// reads all files of a project, waits for somebody at the other end.
func endless(st stat) string {
	switch st.typ() {
	case unix.S_IFIFO:
		return "is a FIFO"
	case unix.S_IFSOCK:
		return "is a socket"
	}
	return ""
}

// note adds what the attributes of the session's object say.
func (n *node) note(t traits) {
	if t.capable && special(n.up) == "" {
		n.Special = "has capabilities"
	}
	n.origin = t.origin && !n.hasLow
}

// below counts what is in the project's directory of n.
func (w *walker) below(n *node) {
	n.newest = 1
	at, err := walkBelow(w.low, n.Path, func(f found) bool {
		n.Below++
		if !f.st.isDir() && f.st.nlink == 1 { // another name may be moved before
			n.newest = max(n.newest, f.st.ctime)
		}
		if f.st.ctime > w.created {
			n.late = append(n.late, f)
		}
		return true
	})
	if err != nil {
		n.belowErr = &Error{Op: "list", Path: filepath.Join(w.root, at), Err: err}
	}
}

func (f *frame) close() {
	if f.up != nil {
		f.up.close()
	}
	if f.low != nil {
		f.low.close()
	}
}

// park gives up the descriptors of f for as long as the walk is far below it.
func (f *frame) park() {
	f.up.park()
	if f.low != nil {
		f.low.park()
	}
	f.parked = true
}

// wake opens what park closed, if it is what it was.
func (f *frame) wake() error {
	if !f.parked {
		return nil
	}
	if f.low != nil {
		if err := f.low.wake(); err == unix.ENOENT {
			return ErrMoved
		} else if err != nil {
			return err
		}
	}
	if err := f.up.wake(); err != nil {
		return err
	}
	f.parked = false
	return nil
}

// list yields the changes in the directory f.
func (w *walker) list(f *frame) bool {
	names, lowErr, err := f.names()
	if err != nil {
		return w.fail("list", f.path, err)
	}
	if lowErr != nil && !w.fail("list", f.path, lowErr) {
		return false
	}
	for chunk := range slices.Chunk(names, maxSights) {
		if !w.chunk(f, chunk) {
			return false
		}
	}
	return true
}

// names lists the directory, in order. That the project's could not be listed is an
// error of its own.
func (f *frame) names() (names []string, lowErr, err error) {
	if names, err = f.up.names(); err != nil {
		return nil, nil, err
	}
	if f.opaque && f.low != nil {
		var low []string
		low, lowErr = f.low.names()
		names = append(names, low...)
	}
	slices.Sort(names)
	return slices.Compact(names), lowErr, nil
}

const (
	// maxSights is at how many names the walk sights before it goes into the first
	// directory among them.
	maxSights = 512

	// fewSights is how many are not worth another thread.
	fewSights = 32
)

// A sight is what was found at one name.
type sight struct {
	n    node // n.Kind is zero if there is no change
	path string
	dir  bool   // it is a directory of the upper layer: nothing is known but n.up, n.low
	twin bool   // it is a twin
	op   string // what failed
	err  error
}

// chunk yields the changes at and below some names of the directory f.
func (w *walker) chunk(f *frame, names []string) bool {
	if err := f.wake(); err != nil {
		return w.lost(f, err)
	}
	sights := slices.Grow(w.buffer(), len(names))[:len(names)]
	defer w.giveBack(sights)
	// Nearly all of the time is spent in the kernel.
	workers := max(1, min(runtime.GOMAXPROCS(0), len(names)/fewSights))
	var wg sync.WaitGroup
	part := (len(names) + workers - 1) / workers
	for k := 1; k < workers; k++ {
		wg.Go(func() { w.look(f, names, sights, k*part, min((k+1)*part, len(names))) })
	}
	w.look(f, names, sights, 0, min(part, len(names)))
	wg.Wait()
	return w.tell(f, names, sights)
}

// buffer returns an empty buffer, to be given back.
func (w *walker) buffer() []sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		b := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return b
	}
	return nil
}

func (w *walker) giveBack(sights []sight) {
	clear(sights)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, sights[:0])
}

// tell yields the changes at and below names that were looked at.
func (w *walker) tell(f *frame, names []string, sights []sight) bool {
	if slices.ContainsFunc(sights, func(l sight) bool { return l.dir }) {
		if err := f.wake(); err != nil {
			return w.lost(f, err)
		}
	}
	scouts := w.scouts(f, names, sights)
	defer scouts.end()
	for i := range names {
		l := &sights[i]
		if l.twin && w.twins != nil {
			w.twins[inode{l.n.up.dev, l.n.up.ino}] = twin{l.path, l.n.low}
		}
		more := true
		switch {
		case l.err != nil:
			if len(l.path) > maxPath {
				more = w.tooDeep(l.path)
			} else {
				more = w.fail(l.op, l.path, l.err)
			}
		case l.dir:
			if err := f.wake(); err != nil {
				return w.lost(f, err)
			}
			more = w.directory(f, names[i], l, scouts.next(i))
		default:
			more = w.emit(&l.n)
		}
		if !more {
			return false
		}
	}
	return true
}

// tooDeep tells of what lies at a path that is too long, unless it was dropped with the directories above.
func (w *walker) tooDeep(path string) bool {
	if len(w.held) > 0 {
		return true
	}
	n := node{root: w.index}
	n.Root, n.Path = w.root, path
	n.deep = &Error{Op: "look at", Path: filepath.Join(w.root, path[:256]+"…"),
		Err: fmt.Errorf("its path is longer than %d bytes, and cannot be committed: %w", maxPath, unix.ENAMETOOLONG)}
	return w.yield(n, n.deep)
}

// lost tells of a directory that could not be opened again, and reports whether the walk is
// to go on.
func (w *walker) lost(f *frame, err error) bool {
	if err == unix.ENOENT {
		return true // it is gone; the command is still running
	}
	return w.fail("open", f.path, err)
}

// takeRepos returns the repositories that were met since it was called last.
func (w *walker) takeRepos() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.repos
	w.repos = nil
	return list
}

// look looks at some of the names.
func (w *walker) look(f *frame, names []string, sights []sight, from, to int) {
	for i := from; i < to; i++ {
		l := &sights[i]
		l.path, l.n.root = joinPath(f.path, names[i]), w.index
		if len(l.path) > maxPath {
			l.op, l.err = "look at", unix.ENAMETOOLONG
			continue
		}
		l.op, l.err = w.entry(f, names[i], l)
		// Somebody else's commit replaces a file once; who does it all the time is not
		// waited for.
		for tries := 0; l.err == ErrMoved && tries < 4; tries++ {
			*l = sight{path: l.path, n: node{root: w.index}}
			l.op, l.err = w.entry(f, names[i], l)
		}
	}
}

// entry sights at one name of the directory f. It fails with what could not be done.
func (w *walker) entry(f *frame, name string, l *sight) (op string, err error) {
	n := &l.n
	if n.up, n.hasUp, err = f.up.lstat(name); err != nil {
		return "look at", err
	}
	if !n.hasUp && !f.opaque {
		return "", nil // it is gone; the command is still running
	}
	n.hasUp = n.hasUp && !n.up.isWhiteout()
	settled, isSettled := w.settled[l.path]
	if isSettled && n.hasUp && !n.up.isDir() && settled.Upper == n.up.ctime {
		return "", nil
	}
	if f.low != nil {
		if n.low, n.hasLow, err = f.low.lstat(name); err != nil {
			return "look at", err
		}
	}
	switch {
	case !n.hasUp:
		if n.hasLow && !(isSettled && settled.Upper == 0) {
			w.fill(n, Deleted, l.path)
		}
		return "", nil
	case n.up.isDir():
		l.dir = true
		return "", nil
	case n.hasLow && n.up.typ() == n.low.typ():
		if err := w.compare(f, name, n); err != nil {
			return "compare", err
		}
		l.twin = n.Aspects == 0 && n.up.isReg() && n.up.nlink > 1
		w.fillModified(n, l.path)
		return "", nil
	}
	t, err := f.up.traits(name, n.up)
	if err == unix.ENOENT {
		return "", nil // as above
	}
	if err != nil {
		return "read attributes", err
	}
	n.note(t)
	if n.hasLow {
		w.fill(n, TypeChanged, l.path)
	} else {
		w.fill(n, Added, l.path)
	}
	return "", nil
}

// directory yields the change of a directory, if there is one, and those in it. A
// scout may have been there before.
func (w *walker) directory(f *frame, name string, l *sight, before *scout) bool {
	path, n := l.path, l.n
	sub := &frame{path: path, depth: f.depth + 1, opaque: f.opaque}
	var err error
	if before != nil && (before.err == unix.EMFILE || before.err == unix.ENFILE) {
		before.sub.close() // the walk alone needs fewer
		before = nil
	}
	if before != nil {
		sub, n, err = before.sub, before.n, before.err
	} else {
		err = w.enter(f, sub, name, &n)
	}
	defer sub.close()
	if err == unix.ENOENT {
		return true // it is gone; the command is still running
	}
	if err != nil && !w.fail("open", path, err) {
		return false
	}
	// That it is there is known, even if what is in it is not.
	st, ok := w.settled[path]
	dropped := ok && st.Upper != 0 && st.Upper == n.up.ctime
	switch {
	case !n.hasLow:
		w.fill(&n, Added, path)
	case !n.low.isDir():
		w.fill(&n, TypeChanged, path)
	case err == nil && !dropped:
		w.fillModified(&n, path)
	}
	if dropped && n.Kind != 0 {
		// It is a change again if something was written to it since.
		held := len(w.held)
		w.held = append(w.held, n)
		defer func() { w.held = w.held[:min(held, len(w.held))] }()
	} else if !w.emit(&n) {
		return false
	}
	if err != nil {
		return true
	}
	if before != nil && before.seen {
		defer w.giveBack(before.sights)
		return w.tell(sub, before.names, before.sights)
	}
	if f.depth >= maxHeld {
		f.park()
	}
	if err := sub.wake(); err != nil { // a scout found it too large
		return w.lost(sub, err)
	}
	return w.list(sub)
}

// enter opens the directory name of f as sub, and compares it with the project's.
func (w *walker) enter(f, sub *frame, name string, n *node) (err error) {
	if sub.up, err = f.up.dir(name, n.up); err != nil {
		sub.up = nil
		return err
	}
	opaque, err := sub.up.opaque()
	if err != nil {
		return err
	}
	sub.opaque = sub.opaque || opaque
	if !n.hasLow {
		n.origin, err = sub.up.origin()
		return err
	}
	if !n.low.isDir() {
		return nil
	}
	if sub.low, err = f.low.dir(name, n.low); err != nil {
		sub.low = nil
		if err == unix.ENOENT {
			err = ErrMoved
		}
		return err
	}
	if _, ok, err := sub.low.lstat(".git"); ok && err == nil {
		w.mu.Lock()
		w.repos = append(w.repos, filepath.Join(w.root, sub.path))
		w.mu.Unlock()
	}
	n.Aspects = accessAspects(n.up, n.low)
	same, err := sameXattrs(sub.up, sub.low)
	if !same {
		n.Aspects |= Attributes
	}
	return err
}

// accessAspects compares who may do what.
func accessAspects(a, b stat) Aspect {
	var as Aspect
	if a.perm() != b.perm() {
		as |= Mode
	}
	if a.uid != b.uid || a.gid != b.gid {
		as |= Owner
	}
	return as
}

// sameXattrs compares the attributes of two directories or files.
func sameXattrs(a, b interface{ xattrs() (xattrs, error) }) (bool, error) {
	x, err := a.xattrs()
	if err != nil {
		return false, err
	}
	y, err := b.xattrs()
	if err != nil {
		return false, err
	}
	return maps.Equal(x, y), nil
}

// compare finds out what differs about two objects of one type, neither of them a
// directory.
func (w *walker) compare(f *frame, name string, n *node) error {
	n.Aspects = accessAspects(n.up, n.low)
	switch n.up.typ() {
	case unix.S_IFREG:
		return w.compareFiles(f, name, n)
	case unix.S_IFLNK:
		if n.up.size != n.low.size {
			n.Aspects |= Content
			return nil
		}
		a, err := f.up.link(name, n.up)
		if err != nil {
			return err
		}
		b, err := f.low.link(name, n.low)
		if a != b {
			n.Aspects |= Content
		}
		return err
	default:
		if n.up.rdev != n.low.rdev {
			n.Aspects |= Content
		}
		up, err := f.up.traits(name, n.up)
		if err != nil {
			return err
		}
		n.note(up)
		low, err := f.low.traits(name, n.low)
		if err != nil {
			return err
		}
		if !maps.Equal(up.lists, low.lists) {
			n.Aspects |= Attributes
		}
	}
	return nil
}

// compareFiles is compare for regular files.
func (w *walker) compareFiles(f *frame, name string, n *node) error {
	up, err := f.up.traits(name, n.up)
	if err != nil {
		return err
	}
	n.note(up)
	low, err := f.low.traits(name, n.low)
	if err != nil {
		return err
	}
	if up.project != low.project || up.capable && !low.capable {
		n.Aspects |= Attributes
	}
	values := up.project && low.project
	if n.up.size != n.low.size {
		n.Aspects |= Content
		if !values {
			return nil
		}
	} else if n.up.size == 0 && !values {
		return nil
	}
	a, err := f.up.file(name, n.up)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := f.low.file(name, n.low)
	if err == unix.EACCES {
		n.Aspects |= Content // what cannot be read cannot be called equal
		return nil
	}
	if err != nil {
		return err
	}
	defer b.close()
	if values {
		same, err := sameXattrs(a, b)
		if err != nil {
			return err
		}
		if !same {
			n.Aspects |= Attributes
		}
	}
	if n.up.size != n.low.size {
		return nil
	}
	same, err := sameData(a.handle, b.handle, n.up.size)
	if !same {
		n.Aspects |= Content
	}
	return err
}
