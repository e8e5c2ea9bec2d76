//go:build linux

package tree

import (
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
	Content    bool // bytes of a file, text of a link, or of which file it is a name
	Mode       bool // permission bits
	Owner      bool // user or group
	Attributes bool // extended attributes and access control lists
}

// note adds what the attributes of the upper object say.
func (n *Diff) note(t Traits) {
	n.Capable, n.Origin = t.Capable, t.Origin && !n.HasLow
}

// A Walk compares the two sides of a root.
type Walk struct {
	Root    string // for messages
	Up, Low Tree
	Created int64            // the beginning of the session, in nanoseconds since 1970
	Base    Ownership        // what the top of the upper side was like when it was made
	Settled map[string]int64 // by path, the ctimes of upper objects that are not a change; zero: that it is deleted is none
	Twins   map[Inode]Twin   // what is met, for the caller; nil: it does not want them
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

// A sight is what was found at one name.
type sight struct {
	n    Diff // not changed: there is no change
	path string
	dir  bool   // it is a directory of the upper layer: nothing is known but n.up, n.low
	twin bool   // it is a twin
	op   string // what failed
	err  error
}
