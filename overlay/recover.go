//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Recovered says what Recover did with a session in which something was interrupted.
type Recovered struct {
	ID   string
	What string // such as "a commit was taken back"; empty: nothing had to be done
}

// Recover finishes or rolls back interrupted operations in all sessions of the state directory dir. An empty dir means
// DefaultDir. It skips sessions that are in use. Create, Open and List do this as well; Recover also reports it.
//
// An error is about the session of the Recovered that it comes with; the next call tries again.
func Recover(dir string) iter.Seq2[Recovered, error] {
	return func(yield func(Recovered, error) bool) {
		statePath, state, err := openStateDir(dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Recovered{}, err)
			return
		}
		defer state.Close()
		recoverAll(statePath, state, yield)
	}
}

func recoverAll(statePath string, state *tree.Handle, yield func(Recovered, error) bool) {
	d, err := state.OpenDir(store.PendingName)
	if err == unix.ENOENT {
		return
	}
	var names []string
	if err == nil {
		names, err = d.Names()
		d.Close()
	}
	if err != nil {
		yield(Recovered{}, &Error{Op: "look for interrupted sessions", Path: statePath, Err: err})
		return
	}
	slices.Sort(names)
	for _, id := range names {
		if !store.IsName(id) {
			continue
		}
		r, err := recoverOne(statePath, state, id)
		if errors.Is(err, ErrBusy) || err == nil && r.What == "" {
			continue
		}
		if !yield(r, err) {
			return
		}
	}
}

// mend recovers interrupted sessions before a new one begins. If one with the same roots cannot be recovered, that is
// an error: no session may begin on half a commit.
func (s *Session) mend(statePath string) (err error) {
	recoverAll(statePath, s.state, func(r Recovered, rerr error) bool {
		if rerr == nil {
			return true
		}
		info, ierr := readInfo(s.state, statePath, r.ID)
		for _, mine := range s.meta.Roots {
			for _, root := range info.Roots {
				if ierr == nil && (paths.Inside(root.Path, string(mine.Path)) || paths.Inside(string(mine.Path), root.Path)) {
					err = rerr
				}
			}
		}
		return true
	})
	return err
}

// interrupted reports whether the session has to be recovered.
func (s *Session) interrupted() bool {
	if _, found, err := s.dir.LstatIf(store.BookName); found || err != nil {
		return true
	}
	return store.Pending(s.state, s.id)
}

func recoverOne(statePath string, state *tree.Handle, id string) (Recovered, error) {
	r := Recovered{ID: id}
	fail := func(err error) (Recovered, error) {
		return r, &Error{Op: "recover session", Path: filepath.Join(statePath, id), Err: public(err)}
	}
	own, err := state.Open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fail(err)
	}
	s := &Session{state: own, id: id}
	defer s.release()
	if s.dir, s.lock, err = store.LockSession(state, id, store.Caretaker); err == store.ErrGone {
		if err = state.Unlink(store.PendingName+"/"+id, 0); err == nil || err == unix.ENOENT {
			return r, nil
		}
	}
	if err != nil {
		return fail(err)
	}
	if !s.interrupted() {
		return r, nil // its owner has just done it
	}
	if s.meta, err = store.ReadMeta(s.dir); err != nil {
		return fail(err)
	}
	s.name(id, statePath)
	r.What, err = s.recover()
	if err != nil {
		return fail(err)
	}
	return r, nil
}

// recover finishes or rolls back what was interrupted, and says what it did. The session is locked.
func (s *Session) recover() (what string, err error) {
	// If this process crashes, too, the next one must find the session on the list.
	if err := s.book.MarkPending(); err != nil && err != unix.ENOSPC && err != unix.EDQUOT && err != unix.EROFS {
		return "", err
	}
	if err := s.log.CloseDoors(); err != nil {
		return "", err
	}
	if what, err = s.finishDiscard(); err != nil {
		return what, err
	}
	if err := s.dropTemporary(); err != nil {
		return what, err
	}
	list, err := s.log.List()
	if err != nil {
		return what, err
	}
	for i, n := range slices.Backward(list) {
		done := slices.Contains(s.meta.Done, n)
		if done && i < len(list)-1 {
			break // what came after it shows that it was finished
		}
		did, err := s.log.Recover(n, done)
		if done && what != "" {
			did = "" // something else was interrupted
		}
		if did != "" {
			what = did
		}
		if err != nil {
			return what, err
		}
	}
	if s.log.Owed() != nil {
		return what, nil // the session stays on the list, so that the next process tries again
	}
	return what, s.book.Unmark()
}

// settle recovers the session again if nsrun's own changes of the project could not be noted. A commit would take them
// for changes that somebody else made.
func (s *Session) settle() error {
	if s.log.Owed() == nil {
		return nil
	}
	if _, err := s.recover(); err != nil {
		return &Error{Op: "recover session", Path: s.path, Err: err}
	}
	if err := s.log.Owed(); err != nil {
		return &Error{Op: "recover session", Path: s.path, Err: err}
	}
	return nil
}

// dropTemporary removes unfinished replacements of the session's data.
func (s *Session) dropTemporary() error {
	names, err := s.dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "."+store.MetaName+".") {
			if err := s.dir.Unlink(name, 0); err != nil && err != unix.ENOENT {
				return err
			}
		}
	}
	return nil
}
