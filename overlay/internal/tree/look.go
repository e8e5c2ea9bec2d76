//go:build linux

package tree

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Diff is an object that differs between the two sides of a root: what was found on
// both.
type Diff struct {
	At      string // relative to the root
	Changed bool   // false: it does not differ, or is not to be told of

	Up, Low Stat
	HasUp   bool // false: it was deleted
	HasLow  bool // false: it was added
	Parts   Parts

	// TimeOnly says that nothing but the modification time differs.
	TimeOnly bool

	// Capable says that the upper object gives capabilities to whoever executes it.
	Capable bool

	// Origin says that an added object was copied up from the lower side, where somebody
	// has deleted it since. Links and the like do not tell: false.
	Origin bool

	// Of a lower directory that was deleted or replaced: how many objects are in it, those
	// among them whose ctime is after the walk's created, and the latest ctime of what is
	// no directory, which is at least one if it was looked at.
	Inside int
	Late   []Found
	Newest int64

	// Deep says that what lies here, at a path that is too long for the kernel, was not looked at, and nothing
	// else is known of it.
	Deep error

	// BelowErr says why not all that is in such a directory could be looked at.
	BelowErr error
}

// Parts are the ways in which two objects of one type differ.
type Parts struct {
	Content    bool // bytes of a file, text of a link
	Mode       bool // permission bits
	Owner      bool // user or group
	Attributes bool // extended attributes and access control lists
}

// A Walk compares the two sides of a root.
type Walk struct {
	Root    string // for messages
	Up, Low Tree
	Created int64            // the beginning of the session, in nanoseconds since 1970
	Base    Ownership        // what the top of the upper side was like when it was made
	Settled map[string]int64 // by path, the ctimes of upper objects that are no change; zero: that it is deleted is none
	Twins   map[Inode]Twin   // nil: not wanted
	Times   bool             // what differs in nothing but its time is wanted
	Retimed *atomic.Int64    // counts files of that kind; nil: nobody does
	Yield   func(Diff, error) bool

	held []Diff // directories above that are changes if anything in them is one

	mu    sync.Mutex
	spare [][]sight // buffers that are not in use
	repos []string  // directories that have a .git in the project, and nobody knows yet
}

// An Ownership is who may do what with an object.
type Ownership struct{ Mode, UID, GID uint32 }

// A frame is one directory of the upper layer during a walk.
type frame struct {
	path   string // relative to the root
	depth  int
	up     Dir
	low    Dir  // nil where the project has no directory
	opaque bool // what is below it in the project was not visible
	parked bool
}

func (f *frame) Close() {
	if f.up != nil {
		f.up.Close()
	}
	if f.low != nil {
		f.low.Close()
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

// Names lists the directory, in order. That the project's could not be listed is an
// error of its own.
func (f *frame) Names() (names []string, lowErr, err error) {
	if names, err = f.up.Names(); err != nil {
		return nil, nil, err
	}
	if f.opaque && f.low != nil {
		var low []string
		low, lowErr = f.low.Names()
		names = append(names, low...)
	}
	slices.Sort(names)
	return slices.Compact(names), lowErr, nil
}

const (
	// MaxSights is at how many names the walk sights before it goes into the first
	// directory among them.
	MaxSights = 512

	// fewSights is how many are not worth another thread.
	fewSights = 32
)

// A sight is what was found at one name.
type sight struct {
	n    Diff // not changed: there is no change
	path string
	dir  bool   // it is a directory of the upper layer: nothing is known but n.up, n.low
	twin bool   // it is a twin
	op   string // what failed
	err  error
}

// buffer returns an empty buffer, to be given back.
func (w *Walk) buffer() []sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		b := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return b
	}
	return nil
}

func (w *Walk) giveBack(sights []sight) {
	clear(sights)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, sights[:0])
}

// TakeRepos returns the repositories that were met since it was called last.
func (w *Walk) TakeRepos() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.repos
	w.repos = nil
	return list
}

// look looks at some of the names.
func (w *Walk) look(f *frame, names []string, sights []sight, from, to int) {
	for i := from; i < to; i++ {
		l := &sights[i]
		l.path = JoinPath(f.path, names[i])
		if len(l.path) > MaxPath {
			l.op, l.err = "look at", unix.ENAMETOOLONG
			continue
		}
		l.op, l.err = w.entry(f, names[i], l)
		// Somebody else's commit replaces a file once; who does it all the time is not
		// waited for.
		for tries := 0; l.err == ErrMoved && tries < 4; tries++ {
			*l = sight{path: l.path, n: Diff{}}
			l.op, l.err = w.entry(f, names[i], l)
		}
	}
}

// entry sights at one name of the directory f. It fails with what could not be done.
func (w *Walk) entry(f *frame, name string, l *sight) (op string, err error) {
	n := &l.n
	if n.Up, n.HasUp, err = f.up.Lstat(name); err != nil {
		return "look at", err
	}
	if !n.HasUp && !f.opaque {
		return "", nil // it is gone; the command is still running
	}
	n.HasUp = n.HasUp && !n.Up.IsWhiteout()
	settled, isSettled := w.Settled[l.path]
	if isSettled && n.HasUp && !n.Up.IsDir() && settled == n.Up.Ctime {
		return "", nil
	}
	if f.low != nil {
		if n.Low, n.HasLow, err = f.low.Lstat(name); err != nil {
			return "look at", err
		}
	}
	switch {
	case !n.HasUp:
		if n.HasLow && !(isSettled && settled == 0) {
			w.fill(n, l.path)
		}
		return "", nil
	case n.Up.IsDir():
		l.dir = true
		return "", nil
	case n.HasLow && n.Up.Typ() == n.Low.Typ():
		if err := w.compare(f, name, n); err != nil {
			return "compare", err
		}
		l.twin = n.Parts == (Parts{}) && n.Up.IsReg() && n.Up.Nlink > 1
		w.fillModified(n, l.path)
		return "", nil
	}
	t, err := f.up.Traits(name, n.Up)
	if err == unix.ENOENT {
		return "", nil // as above
	}
	if err != nil {
		return "read attributes", err
	}
	n.note(t)
	if n.HasLow {
		w.fill(n, l.path)
	} else {
		w.fill(n, l.path)
	}
	return "", nil
}

// enter opens the directory name of f as sub, and compares it with the project's.
func (w *Walk) enter(f, sub *frame, name string, n *Diff) (err error) {
	if sub.up, err = f.up.Dir(name, n.Up); err != nil {
		sub.up = nil
		return err
	}
	opaque, err := sub.up.opaque()
	if err != nil {
		return err
	}
	sub.opaque = sub.opaque || opaque
	if !n.HasLow {
		n.Origin, err = sub.up.origin()
		return err
	}
	if !n.Low.IsDir() {
		return nil
	}
	if sub.low, err = f.low.Dir(name, n.Low); err != nil {
		sub.low = nil
		if err == unix.ENOENT {
			err = ErrMoved
		}
		return err
	}
	if _, ok, err := sub.low.Lstat(".git"); ok && err == nil {
		w.mu.Lock()
		w.repos = append(w.repos, filepath.Join(w.Root, sub.path))
		w.mu.Unlock()
	}
	n.Parts = accessParts(n.Up, n.Low)
	same, err := sameXattrs(sub.up, sub.low)
	if !same {
		n.Parts.Attributes = true
	}
	return err
}

// fill makes n a change at a path, with all that follows from that.
func (w *Walk) fill(n *Diff, path string) {
	n.At, n.Changed = path, true
	if n.HasLow && n.Low.IsDir() && !(n.HasUp && n.Up.IsDir()) {
		w.below(n)
	}
}

// fillModified is fill for an object that both sides have with the same type; there
// may be no change.
func (w *Walk) fillModified(n *Diff, path string) {
	if w.Retimed != nil && n.Parts == (Parts{}) && !n.Up.IsDir() && n.Up.Mtime != n.Low.Mtime {
		w.Retimed.Add(1)
	}
	switch {
	case n.Parts != Parts{}:
	case w.Times && n.Up.Mtime != n.Low.Mtime:
		n.TimeOnly = true
	default:
		return
	}
	w.fill(n, path)
}

// note adds what the attributes of the upper object say.
func (n *Diff) note(t Traits) {
	n.Capable, n.Origin = t.Capable, t.Origin && !n.HasLow
}

// below counts what is in the project's directory of n.
func (w *Walk) below(n *Diff) {
	n.Newest = 1
	at, err := WalkBelow(w.Low, n.At, func(f Found) bool {
		n.Inside++
		if !f.Stat.IsDir() && f.Stat.Nlink == 1 { // another name may be moved before
			n.Newest = max(n.Newest, f.Stat.Ctime)
		}
		if f.Stat.Ctime > w.Created {
			n.Late = append(n.Late, f)
		}
		return true
	})
	if err != nil {
		n.BelowErr = &fs.PathError{Op: "list", Path: filepath.Join(w.Root, at), Err: err}
	}
}
