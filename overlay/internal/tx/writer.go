//go:build linux

package tx

import (
	"path/filepath"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An Item is an object that a transaction puts into the project, or takes out of it.
type Item struct {
	tree.Diff
	Root   int
	Kind   string // of change
	Runs   string // why it is executed later; empty: it is not
	Staged string // the digest of what is staged, of an index of git
	Work   string // the directory of the files in that index; empty: it is not known
	Merged []byte // the content of a file that both sides changed; nil: the session's
}

// A Side has the session's and the project's version of a root.
type Side struct {
	Up, Low  tree.Tree
	Base     store.Root
	Dev      uint64
	Stiff    bool // on overlayfs: directories cannot be renamed
	Replaced bool // the root is not the directory that the session was made for

	last   tree.Dir // of up
	lastAt string
}

// Source opens a directory of the session. It belongs to l, and is valid until the next call.
func (l *Side) Source(path string) (tree.Dir, error) {
	if l.last != nil && l.lastAt == path {
		return l.last, nil
	}
	l.release()
	d, err := l.Up.At(path)
	if err != nil {
		return nil, err
	}
	l.last, l.lastAt = d, path
	return d, nil
}

// release closes what Source returned. Directories that were unlocked for that get their own modes back.
func (l *Side) release() {
	if l.last != nil {
		l.last.Close()
		l.last = nil
	}
}

func (l *Side) Close() {
	l.release()
	l.Up.Close()
	l.Low.Close()
}

// A file is one of the project that nobody changed after the session began.
type file struct {
	store.Place
	ino uint64
}

// A rootFile identifies a file by its inode number and its root, because roots can be on different file systems.
type rootFile struct {
	root int
	ino  uint64
}

// A Writer plans a transaction, and makes its new objects.
type Writer struct {
	Tx      *Tx
	Items   []Item // in path order
	Sides   []Side // by root; borrowed
	Twins   []map[tree.Inode]tree.Twin
	Changed func(at store.Place, st tree.Stat) bool // somebody changed it since the session began
	Special bool                                    // setuid bits and the like are copied too

	Take bool // nothing is left in the session afterwards, so large objects are moved instead of copied

	Progress func(made int, bytes int64) // nil: it is not called

	planned []Item               // of each node of the journal
	linked  []file               // files of the project that get more names
	entered map[store.Place]bool // directories in which entries change
	touched map[store.Place]bool // the places in the journal's times
	retimes map[rootFile]Moment  // the new times of files among them
	stays   []Stay               // those of the journal that nobody changed after the session began
	Copier  tree.Copier
	Apart   map[store.Place]bool // directories to which objects cannot be renamed from elsewhere
	made    int

	lastDst   *tree.Handle // the directory in a stage that was written to last
	lastDstAt string
}

func (c *Writer) Close() {
	c.Copier.Close()
	c.lastDst.Close()
}

// progress reports that one more object was made.
func (c *Writer) progress() {
	if c.made++; c.Progress != nil {
		c.Progress(c.made, c.Copier.Bytes)
	}
}

func (c *Writer) abs(at store.Place) string { return filepath.Join(c.Tx.s.Roots[at.Root], at.Path) }
