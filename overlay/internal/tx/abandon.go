//go:build linux

package tx

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Abandon makes the project as it was before the transaction, and removes the transaction. It notes in the ledger what
// nsrun changed in the project. If that cannot be noted, as on a full disk, the journal stays, and Log.Owed says why:
// the next recovery notes it.
func (t *Tx) Abandon(l *Ledger) error {
	t.Doors.hold = true
	if err := t.Backward(); err != nil {
		return err // the next process tries again
	}
	noted := t.noteAll(l)
	if noted == nil {
		t.Doors.unhold() // else the next process reads in the book which directories nsrun itself changed
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if noted != nil && t.Begun {
		return t.endOwing(l, noted)
	}
	return t.End()
}

// noteAll notes in the ledger, and in the session's data, what the transaction changed in the project and put back.
func (t *Tx) noteAll(l *Ledger) error {
	t.LookErr = nil
	t.noteBack(l)
	err := errors.Join(t.noteCopies(l), t.NoteDoors(l))
	m := *t.s.Meta()
	l.Save(&m)
	if serr := t.s.SetMeta(&m, new(tree.Flusher)); serr != nil {
		err = errors.Join(err, &fs.PathError{Op: "write session's data", Path: t.s.Path, Err: serr})
	}
	return err
}

// endOwing is End for a transaction whose changes could not be noted; why says what prevented it. It makes room, and
// tries once more. The journal stays until they are noted.
func (t *Tx) endOwing(l *Ledger, why error) error {
	if strange, err := t.strange(); err != nil || strange || len(t.left) > 0 {
		return t.End()
	}
	if t.markJournal() != nil || t.DropStages() != nil || tree.RemoveTree(t.dir, ObjectsName) != nil {
		t.s.owed = why
		return nil
	}
	return t.settleOwed(l)
}

// settleOwed is for a transaction that has a journal and no objects any more. It notes what the transaction changed,
// and removes it. If that fails, Log.Owed says why.
//
// Somebody may have used the project since. So it notes nothing that was changed after the objects were removed. In
// directories that are copies it notes only what was changed while the project was put back. The journal's times say
// when that began and ended.
func (t *Tx) settleOwed(l *Ledger) error {
	journal, err := t.dir.Lstat(JournalName)
	if err != nil {
		return err
	}
	own, err := t.dir.Stat()
	if err != nil {
		return err
	}
	t.since, t.until, t.copied = journal.Mtime.Nano(), own.Ctime, journal.Ctime
	if err := t.noteAll(l); err != nil {
		t.s.owed = err
		return nil
	}
	t.Doors.unhold()
	return tree.InTurn(t.DropStages, t.remove, t.s.Book.Unmark)
}

// markJournal sets the journal's times: the modification time to the moment at which this process began, and with it
// the ctime to that at which the project was as it had to be.
func (t *Tx) markJournal() error {
	f, err := t.dir.Open(JournalName, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.SetMtime(unix.NsecToTimespec(t.since))
}

// Owed says why a change that nsrun itself made could not be noted. Until a recovery notes it, a commit would take it
// for somebody else's. Nil: all is noted.
func (s *Log) Owed() error { return s.owed }

// End removes a transaction that is no longer in force, except objects that could not be put back.
func (t *Tx) End() error {
	strange, err := t.strange()
	if err != nil {
		return &fs.PathError{Op: "look at", Path: t.s.Path, Err: err}
	}
	if strange || len(t.left) > 0 {
		if err := t.keepAside(); err != nil {
			return err
		}
		errs := []error{}
		for _, e := range t.left {
			errs = append(errs, e)
		}
		if !t.Force { // with Force, the caller asked for that
			errs = append(errs, &fs.PathError{Op: "keep", Path: filepath.Join(t.s.Path, Name, t.aside), Err: ErrAside})
		}
		return errors.Join(errs...)
	}
	owing, err := t.dropLinks()
	if err == nil && owing {
		return nil
	}
	if err == nil {
		err = t.remove()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUntidy, &fs.PathError{Op: "remove", Path: filepath.Join(t.s.Path, Name, strconv.Itoa(t.N)), Err: err})
	}
	return t.s.Book.Unmark()
}

// ErrUntidy is what End wraps if the project is as it has to be, and only the stages are still there.
var ErrUntidy = errors.New("all of it is done, but it cannot be cleaned up")

// dropLinks removes the stages, and new objects that are links to files of the project. It notes the new ctimes that
// these files get. owing: they could not be noted, and Log.Owed says why.
func (t *Tx) dropLinks() (owing bool, err error) {
	var l Ledger
	l.Load(t.s.Meta())
	made := map[uint64]bool{}
	for _, n := range t.Journal.Nodes {
		made[n.New.Ino] = true
	}
	var linked []store.Place
	for _, r := range t.Journal.Times {
		at := store.Place{Root: r.Root, Path: string(r.Path)}
		if now, ok := t.look(at); ok && made[r.Ino] && now.Ino == r.Ino && (l.Files[r.Ino] == now.Ctime || l.At[at].Lower == now.Ctime) {
			linked = append(linked, at)
		}
	}
	if err := t.DropStages(); err != nil || linked == nil {
		return false, err
	}
	if err := tree.InTurn(t.markJournal, func() error { return tree.RemoveTree(t.dir, ObjectsName) }); err != nil {
		return false, err
	}
	for _, at := range linked {
		t.refresh(&l, at)
		if now, ok := t.look(at); ok {
			l.Files[now.Ino] = now.Ctime
		}
	}
	m := *t.s.Meta()
	l.Save(&m)
	if err := t.s.SetMeta(&m, new(tree.Flusher)); err != nil {
		t.s.owed = &fs.PathError{Op: "write session's data", Path: t.s.Path, Err: err}
		return true, nil
	}
	return false, nil
}

// Tidy removes what a finished transaction does not need.
func (t *Tx) Tidy() error {
	if err := t.DropStages(); err != nil {
		return err
	}
	if err := t.s.Book.Unmark(); err != nil {
		return &fs.PathError{Op: "tidy up", Path: t.s.Path, Err: err}
	}
	return nil
}
