//go:build linux

package overlay

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A diff is an object that differs between the two sides of a root: what was found on
// both.
type diff struct {
	at      string // relative to the root
	changed bool   // false: it does not differ, or is not to be told of

	up, low stat
	hasUp   bool // false: it was deleted
	hasLow  bool // false: it was added
	parts   parts

	// timeOnly says that nothing but the modification time differs.
	timeOnly bool

	// capable says that the upper object gives capabilities to whoever executes it.
	capable bool

	// origin says that an added object was copied up from the lower side, where somebody
	// has deleted it since. Links and the like do not tell: false.
	origin bool

	// Of a lower directory that was deleted or replaced: how many objects are in it, those
	// among them whose ctime is after the walk's created, and the latest ctime of what is
	// no directory, which is at least one if it was looked at.
	inside int
	late   []found
	newest int64

	// deep says that what lies here, at a path that is too long for the kernel, was not looked at, and nothing
	// else is known of it.
	deep error

	// belowErr says why not all that is in such a directory could be looked at.
	belowErr error
}

// parts are the ways in which two objects of one type differ.
type parts struct {
	content    bool // bytes of a file, text of a link
	mode       bool // permission bits
	owner      bool // user or group
	attributes bool // extended attributes and access control lists
}

// A walker compares the two sides of a root.
type walker struct {
	root    string // for messages
	up, low tree
	created int64            // the beginning of the session, in nanoseconds since 1970
	base    ownership        // what the top of the upper side was like when it was made
	settled map[string]int64 // by path, the ctimes of upper objects that are no change; zero: that it is deleted is none
	twins   map[inode]twin   // nil: not wanted
	times   bool             // what differs in nothing but its time is wanted
	retimed *atomic.Int64    // counts files of that kind; nil: nobody does
	yield   func(diff, error) bool

	held []diff // directories above that are changes if anything in them is one

	mu    sync.Mutex
	spare [][]sight // buffers that are not in use
	repos []string  // directories that have a .git in the project, and nobody knows yet
}

// An ownership is who may do what with an object.
type ownership struct{ mode, uid, gid uint32 }

// A frame is one directory of the upper layer during a walk.
type frame struct {
	path   string // relative to the root
	depth  int
	up     dir
	low    dir  // nil where the project has no directory
	opaque bool // what is below it in the project was not visible
	parked bool
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
			return errMoved
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
	n    diff // not changed: there is no change
	path string
	dir  bool   // it is a directory of the upper layer: nothing is known but n.up, n.low
	twin bool   // it is a twin
	op   string // what failed
	err  error
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
		l.path = joinPath(f.path, names[i])
		if len(l.path) > maxPath {
			l.op, l.err = "look at", unix.ENAMETOOLONG
			continue
		}
		l.op, l.err = w.entry(f, names[i], l)
		// Somebody else's commit replaces a file once; who does it all the time is not
		// waited for.
		for tries := 0; l.err == errMoved && tries < 4; tries++ {
			*l = sight{path: l.path, n: diff{}}
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
	if isSettled && n.hasUp && !n.up.isDir() && settled == n.up.ctime {
		return "", nil
	}
	if f.low != nil {
		if n.low, n.hasLow, err = f.low.lstat(name); err != nil {
			return "look at", err
		}
	}
	switch {
	case !n.hasUp:
		if n.hasLow && !(isSettled && settled == 0) {
			w.fill(n, l.path)
		}
		return "", nil
	case n.up.isDir():
		l.dir = true
		return "", nil
	case n.hasLow && n.up.typ() == n.low.typ():
		if err := w.compare(f, name, n); err != nil {
			return "compare", err
		}
		l.twin = n.parts == (parts{}) && n.up.isReg() && n.up.nlink > 1
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
		w.fill(n, l.path)
	} else {
		w.fill(n, l.path)
	}
	return "", nil
}

// enter opens the directory name of f as sub, and compares it with the project's.
func (w *walker) enter(f, sub *frame, name string, n *diff) (err error) {
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
			err = errMoved
		}
		return err
	}
	if _, ok, err := sub.low.lstat(".git"); ok && err == nil {
		w.mu.Lock()
		w.repos = append(w.repos, filepath.Join(w.root, sub.path))
		w.mu.Unlock()
	}
	n.parts = accessParts(n.up, n.low)
	same, err := sameXattrs(sub.up, sub.low)
	if !same {
		n.parts.attributes = true
	}
	return err
}

// fill makes n a change at a path, with all that follows from that.
func (w *walker) fill(n *diff, path string) {
	n.at, n.changed = path, true
	if n.hasLow && n.low.isDir() && !(n.hasUp && n.up.isDir()) {
		w.below(n)
	}
}

// fillModified is fill for an object that both sides have with the same type; there
// may be no change.
func (w *walker) fillModified(n *diff, path string) {
	if w.retimed != nil && n.parts == (parts{}) && !n.up.isDir() && n.up.mtime != n.low.mtime {
		w.retimed.Add(1)
	}
	switch {
	case n.parts != parts{}:
	case w.times && n.up.mtime != n.low.mtime:
		n.timeOnly = true
	default:
		return
	}
	w.fill(n, path)
}

// note adds what the attributes of the upper object say.
func (n *diff) note(t traits) {
	n.capable, n.origin = t.capable, t.origin && !n.hasLow
}

// below counts what is in the project's directory of n.
func (w *walker) below(n *diff) {
	n.newest = 1
	at, err := walkBelow(w.low, n.at, func(f found) bool {
		n.inside++
		if !f.st.isDir() && f.st.nlink == 1 { // another name may be moved before
			n.newest = max(n.newest, f.st.ctime)
		}
		if f.st.ctime > w.created {
			n.late = append(n.late, f)
		}
		return true
	})
	if err != nil {
		n.belowErr = &fs.PathError{Op: "list", Path: filepath.Join(w.root, at), Err: err}
	}
}
