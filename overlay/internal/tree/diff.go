//go:build linux

package tree

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Diff is an object that differs between the two sides of a root, as it was found on both.
type Diff struct {
	At      string // relative to the root
	Changed bool   // false: it does not differ, or not in a way that matters

	Up, Low Stat
	HasUp   bool // false: it was deleted
	HasLow  bool // false: it was added
	Parts   Parts

	// TimeOnly says that only the modification time differs.
	TimeOnly bool

	// Capable says that the upper object has file capabilities.
	Capable bool

	// Origin says that an added object was copied up from the lower side, where somebody
	// deleted it since. For symbolic links and the like, that is not known: false.
	Origin bool

	// Of a lower directory that was deleted or replaced: how many objects are in it, those
	// with a ctime after Walk.Created, and the latest ctime of objects that are no
	// directories, which is at least one if the directory was read.
	Inside int
	Late   []Found
	Newest int64

	// Deep is set if the path is too long for the kernel. Then nothing else is known of the object.
	Deep error

	// BelowErr says why not everything in such a directory could be read.
	BelowErr error
}

// Parts are the ways in which two objects of one type differ.
type Parts struct {
	Content    bool // bytes of a file, text of a link, or of which file it is a name
	Mode       bool // permission bits
	Owner      bool // user or group
	Attributes bool // extended attributes and access control lists
}

// note evaluates the attributes of the upper object.
func (n *Diff) note(t Traits) { n.Capable, n.Origin = t.Capable, t.Origin && !n.HasLow }

// A Walk compares the two sides of a root.
type Walk struct {
	Root    string // for messages
	Up, Low Tree
	Created int64            // the beginning of the session, in nanoseconds since 1970
	Base    Ownership        // of the top of the upper side when it was made
	Settled map[string]int64 // by path, the ctimes of upper objects that are not a change; zero: its deletion is none
	Twins   map[Inode]Twin   // is filled with the twins; nil: they are not wanted
	Times   bool             // yield objects that differ only in their time
	Retimed *atomic.Int64    // counts such files, and touched directories; nil: they are not counted
	Yield   func(Diff, error) bool

	held []Diff // directories above that are changes if anything in them is one

	mu    sync.Mutex
	spare [][]sight // buffers that are not in use
	repos []string  // directories that have a .git in the project, for TakeRepos; none at the top of the root
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

// park closes the descriptors of f while the walk is far below it.
func (f *frame) park() {
	f.up.park()
	if f.low != nil {
		f.low.park()
	}
	f.parked = true
}

// wake opens what park closed, if it is still the same.
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

// Names lists the directory, in order. lowErr says that the project's directory could not be listed.
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
	n    Diff
	path string
	dir  bool   // it is a directory of the upper layer; only n.Up and n.Low are known
	twin bool   // it is a twin
	op   string // what failed
	err  error
}
