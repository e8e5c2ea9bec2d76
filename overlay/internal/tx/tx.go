//go:build linux

package tx

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A transaction owns the directory tx/N of its session:
//
//	journal   what is moved where
//	objects/  new objects until they are moved into the project, and the old ones
//	          they took the place of from then on: the backup
//	copies/   copies of old objects, where the project is on another file system: there
//	          the objects' place is a stage in the project, which goes with the end of
//	          the transaction
//	stages    names of these
type Tx struct {
	s       *Log
	N       int
	Journal *Journal
	dir     *tree.Handle // tx/N

	low     []*tree.Handle // the roots
	Objects *tree.Handle
	staged  []Stage
	stages  []*tree.Handle // by stage; nil: it is gone

	Doors Doors
	Begun bool // the project may have been changed
	Plain bool // rename only as every file system can; for tests
	Force bool // what somebody else put into a place is moved away

	Progress func(done, total int) // nil: nobody wants to know

	careful bool // the project may have been used since: what was set may have been changed

	LookErr error        // of look
	seen    *tree.Handle // the project's directory that was looked at last
	seenAt  store.Place

	asIs  []int    // moves that an undo leaves alone
	times []Retime // the journal's, before an undo left some alone; nil: they are

	// left are objects that could not be put back since somebody else's are in their
	// place. Nil: none. Where the transaction was kept aside for that, aside is its name.
	left  []*fs.PathError
	aside string
}

const (
	Name        = "tx"
	ObjectsName = "objects"
	copiesName  = "copies"
)

// openRoots opens the projects' directories, those that the session was made for.
func (t *Tx) openRoots() error {
	t.low = make([]*tree.Handle, len(t.s.Roots))
	t.Doors = Doors{s: t.s, low: t.low}
	for i := range t.s.Roots {
		low, err := t.s.Open(i)
		if err != nil {
			return err
		}
		if t.low[i], err = low.Open(".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return err
		}
		if err := t.s.Meta().Roots[i].Check(low); err != nil {
			return &fs.PathError{Op: "open root", Path: t.s.Roots[i], Err: err}
		}
	}
	return nil
}

func (t *Tx) openStages() error {
	t.stages = make([]*tree.Handle, len(t.staged))
	for i, st := range t.staged {
		h, err := t.low[st.Root].OpenDir(tree.JoinPath(string(st.Dir), st.Name))
		if err != nil && err != unix.ENOENT {
			return err
		}
		t.stages[i] = h
	}
	return nil
}

func (t *Tx) Close() {
	_ = t.Doors.Relock() // where that fails, the book tells whoever comes next
	for _, list := range [][]*tree.Handle{t.low, t.stages, {t.Objects, t.dir, t.seen}} {
		for _, h := range list {
			h.Close()
		}
	}
}

func (t *Tx) abs(n Node) string { return filepath.Join(t.s.Roots[n.Root], string(n.Path)) }

// Stage is where the objects of a move wait; nil where that is gone.
func (t *Tx) Stage(m Move) *tree.Handle {
	if m.Stage == 0 {
		return t.Objects
	}
	if m.Stage > len(t.stages) {
		return nil
	}
	return t.stages[m.Stage-1]
}

// Seal writes the journal, and flushes all that a crash must not take, what staged has
// among it: nothing in the project was changed before.
func (t *Tx) Seal(staged *tree.Flusher) error {
	data, err := json.Marshal(t.Journal)
	if err != nil {
		return err
	}
	if int64(len(data)) >= store.MetaMost {
		return unix.EFBIG
	}
	if err := t.s.Book.MarkPending(); err != nil { // an undo may begin with this
		return err
	}
	if err := t.dir.ReplaceFile(JournalName, data, staged); err != nil {
		return err
	}
	var names tree.Flusher
	defer names.Close()
	if err := t.s.Book.AddTo(&names); err != nil {
		return err
	}
	for _, d := range []struct {
		h    *tree.Handle
		name string
	}{{t.dir, ObjectsName}, {t.dir, "."}, {t.s.Dir, Name}, {t.s.Dir, "."}} {
		if err := names.AddDir(d.h, d.name); err != nil {
			return err
		}
	}
	return names.Wait()
}

// remove removes the transaction's directory, and closes it.
func (t *Tx) remove() error {
	top, err := t.s.Dir.OpenDir(Name)
	if err != nil {
		return err
	}
	defer top.Close()
	t.Close()
	return tree.RemoveTree(top, strconv.Itoa(t.N))
}
