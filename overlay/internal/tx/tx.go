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

// A Tx is a transaction. It owns the directory tx/N of its session:
//
//	journal   what is moved where
//	objects/  the new objects, and after the exchange the old ones: the backup
//	copies/   copies of old objects, if the project is on another file system. Its objects
//	          are exchanged with a stage, a directory in the project, which is removed
//	          at the end of the transaction
//	stages    the names of the stages
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
	Plain bool // use no flags of renameat2(2); for tests
	Force bool // move away what somebody else put into the place of an object

	Progress func(done, total int) // nil: it is not called

	since         int64 // the ctime from which on a change can be this process's
	until, copied int64 // see settleOwed; 0: nobody else used the project since it was put back

	careful bool // somebody may have used the project since: attributes may differ from the journal's

	LookErr error        // the first error of look
	seen    *tree.Handle // the directory of the project that look used last
	seenAt  store.Place
	opener  store.Opener

	asIs  []int    // moves that an undo skips
	times []Retime // the journal's times before an undo removed some of them; nil: it removed none

	// left are objects that could not be put back, because somebody else's objects are in
	// their place. Nil: none. If the transaction was kept aside for that, aside is its name.
	left  []*fs.PathError
	aside string
}

const (
	Name        = "tx"
	ObjectsName = "objects"
	copiesName  = "copies"
)

// openRoots opens the project directories. It is an error if one was replaced.
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
	t.opener.Close()
	_ = t.Doors.Relock() // if that fails, the next process reads in the book what to do
	for _, list := range [][]*tree.Handle{t.low, t.stages, {t.Objects, t.dir, t.seen}} {
		for _, h := range list {
			h.Close()
		}
	}
}

func (t *Tx) abs(n Node) string { return filepath.Join(t.s.Roots[n.Root], string(n.Path)) }

// Stage is the directory for the objects of a move. Nil: it was removed.
func (t *Tx) Stage(m Move) *tree.Handle {
	if m.Stage == 0 {
		return t.Objects
	}
	if m.Stage > len(t.stages) {
		return nil
	}
	return t.stages[m.Stage-1]
}

// Seal writes the journal, and flushes it with everything in staged, if that is not nil. Until then, nothing in the
// project is changed.
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
	if staged != nil {
		if err := t.addMeta(staged); err != nil {
			return err
		}
	}
	if err := t.dir.ReplaceFile(JournalName, data, staged); err != nil {
		return err
	}
	return t.flushNames()
}

// addMeta adds the session's data, without which there is no recovery. Create does not flush it.
func (t *Tx) addMeta(f *tree.Flusher) error {
	if marked, _ := store.Unsynced(t.s.Dir); !marked {
		return nil // Close did it
	}
	meta, err := t.s.Dir.Open(store.MetaName, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	return f.AddFile(meta)
}

// flushNames waits until everything is on disk by which a recovery finds the transaction.
func (t *Tx) flushNames() error {
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
