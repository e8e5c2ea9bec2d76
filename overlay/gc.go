//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

const (
	// orphanAge is the minimum age of something that another process may be making right now.
	orphanAge = time.Hour

	// damagedAge is the minimum age of a session without readable data.
	damagedAge = 24 * time.Hour

	cleanEvery = 24 * time.Hour
	stampName  = "cleaned" // of when CleanDaily last did something, in the state directory

)

// Clean removes old sessions from the state directory dir, the newest first, and
// yields what it removed. An empty dir means DefaultDir.
//
// It never removes sessions of other users, sessions that are open, or sessions on which others are based. A session
// whose data cannot be read is removed only if it is empty, or is named. If something cannot be removed, Clean yields
// an error, with ID and Dir set as far as they are known, and goes on with the others.
func Clean(dir string, o CleanOptions) iter.Seq2[Cleaned, error] {
	return func(yield func(Cleaned, error) bool) {
		statePath, state, err := openStateDir(dir, false)
		if errors.Is(err, fs.ErrNotExist) && len(o.Sessions) == 0 {
			return
		}
		if err != nil {
			yield(Cleaned{}, err)
			return
		}
		defer state.Close()
		recoverAll(statePath, state, func(Recovered, error) bool { return true })
		c := cleaner{state: state, path: statePath, o: o, now: time.Now()}
		if o.Ended == 0 {
			c.o.Ended = Retention
		}
		names, named, err := c.choose()
		if err != nil {
			yield(Cleaned{}, err)
			return
		}
		for len(names) > 0 {
			var held []string // which are free when what stands on them is gone
			last := true
			for _, name := range names {
				found, ok, err := c.remove(name, named)
				if errors.Is(err, heldError{}) {
					held = append(held, name)
					continue
				}
				last = last && (!ok || o.DryRun)
				if err != nil {
					err = &Error{Op: opRemove, Path: found.Dir, Err: err}
				}
				if (ok || err != nil) && !yield(found, err) {
					return
				}
			}
			names = held
			if last {
				break
			}
		}
		for _, name := range names {
			found := Cleaned{ID: name, Dir: filepath.Join(statePath, name)}
			if named && !yield(found, &Error{Op: opRemove, Path: found.Dir, Err: heldError{}}) {
				return
			}
		}
	}
}

// CleanDaily is CleanDailyWith with the zero CleanOptions.
func CleanDaily(dir string) error { return CleanDailyWith(dir, CleanOptions{}) }

// CleanDailyWith calls Clean, unless that was done within the last day; then it costs next to nothing. It returns the
// first error.
func CleanDailyWith(dir string, o CleanOptions) error {
	statePath, state, err := openStateDir(dir, false)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	defer state.Close()
	if st, err := state.Lstat(stampName); err == nil {
		if age := time.Since(time.Unix(st.Mtime.Unix())); age >= 0 && age < cleanEvery {
			return nil
		}
	}
	// The stamp comes first, so that other processes do not do the same meanwhile.
	if err := state.Unlink(stampName, 0); err != nil && err != unix.ENOENT {
		return &Error{Op: "remove", Path: filepath.Join(statePath, stampName), Err: err}
	}
	f, err := state.Create(stampName)
	if err != nil {
		if err == unix.EEXIST {
			return nil
		}
		return &Error{Op: "make", Path: filepath.Join(statePath, stampName), Err: err}
	}
	f.Close()
	var first error
	for _, err := range Clean(statePath, o) {
		if first == nil {
			first = err
		}
	}
	return first
}

// A cleaner is one call of Clean.
type cleaner struct {
	state *tree.Handle
	path  string
	o     CleanOptions
	now   time.Time
}

// choose lists the candidates, newest first.
func (c *cleaner) choose() (names []string, named bool, err error) {
	if len(c.o.Sessions) > 0 {
		for _, id := range c.o.Sessions {
			name, err := store.FindSession(c.state, id)
			if err != nil {
				return nil, true, &Error{Op: opRemove, Path: id, Err: err}
			}
			names = append(names, name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		slices.Reverse(names)
		return names, true, nil
	}
	all, err := c.state.Names()
	if err != nil {
		return nil, false, &Error{Op: "list sessions", Path: c.path, Err: err}
	}
	names = slices.DeleteFunc(all, func(n string) bool {
		return !store.IsName(n) && !store.IsName(strings.TrimPrefix(n, store.NewPrefix)) && !store.IsName(strings.TrimPrefix(n, store.GonePrefix))
	})
	slices.Sort(names)
	slices.Reverse(names)
	return names, false, nil
}

// remove removes one directory, if it is to be removed; ok says that it did.
func (c *cleaner) remove(name string, named bool) (found Cleaned, ok bool, err error) {
	found.Dir = filepath.Join(c.path, name)
	orphan := name[0] == '.'
	if !orphan {
		found.ID = name
	}
	d, err := store.OpenOwned(c.state, name)
	if err != nil {
		if !named && (err == unix.ENOENT || errors.Is(err, unix.EPERM)) {
			err = nil // gone meanwhile, or somebody else's
		}
		return found, false, err
	}
	defer d.Close()
	expired := func() (bool, error) {
		st, err := d.Stat()
		if err != nil {
			return false, err
		}
		found.Last = time.Unix(st.Mtime.Unix())
		if orphan {
			return c.older(found.Last, time.Minute), nil
		}
		return c.expired(d, &found, named)
	}
	// A session that stays is not locked, because another process may be about to open it.
	if ok, err := expired(); err == nil && !ok {
		return found, false, nil
	}
	lock, err := c.lock(name, d)
	unlocked := err == unix.ENOENT // half of a session: nobody can have it open
	if !named && (errors.Is(err, ErrBusy) || err == store.ErrGone) {
		return found, false, nil
	}
	if err != nil && !unlocked {
		return found, false, err
	}
	defer lock.Close()
	if ok, err = expired(); err != nil {
		return found, false, err
	}
	// A process makes the lock first, removes it last, and holds it in between.
	ok = ok && (!orphan || !unlocked || c.older(found.Last, orphanAge))
	if ok && !orphan {
		if store.Pending(c.state, name) {
			return found, false, errInterrupted // what the project lacks may be in it
		}
		on, err := store.Dependents(c.state, d, name)
		if err == nil && len(on) > 0 {
			err = heldError{}
		}
		if err != nil {
			return found, false, err
		}
	}
	if !ok {
		return found, false, nil
	}
	sum, err := store.DiskUsage(context.Background(), d)
	if err != nil && (!orphan || !errors.Is(err, fs.ErrNotExist)) { // somebody else may be removing it, without a lock
		return found, false, err
	}
	found.Size = sum.Bytes
	if c.o.DryRun {
		return found, true, nil
	}
	return found, true, store.RemoveWhole(c.state, name, lock)
}

// lock takes the lock of what is to be removed; with DryRun it only checks it.
func (c *cleaner) lock(name string, d *tree.Handle) (*tree.Handle, error) {
	if !c.o.DryRun {
		return store.LockDir(c.state, name, d, store.Caretaker)
	}
	who, err := store.Locked(d)
	if err == nil && who != store.Unheld {
		err = ErrBusy
	}
	return nil, store.OrGone(c.state, name, d, err)
}

// expired reports whether the session in d, which no other process has open, is to be removed.
func (c *cleaner) expired(d *tree.Handle, found *Cleaned, named bool) (bool, error) {
	m, err := store.ReadMeta(d)
	if err != nil {
		if named {
			return true, nil
		}
		if !store.Damaged(err) {
			return false, err
		}
		if !c.older(found.Last, damagedAge) {
			return false, nil
		}
		if data, derr := store.HoldsData(d); data || derr != nil {
			return false, fmt.Errorf("its data cannot be read, and there are changes in it: %w", err)
		}
		return true, nil
	}
	found.State = stateOf(m.State)
	if found.Last, err = store.LastUse(d, m); err != nil {
		return false, err
	}
	if named {
		return true, nil
	}
	if aside, err := tx.HasAside(d); err != nil || aside {
		return false, err // what is there is somebody's, and nowhere else
	}
	switch {
	case m.State == store.Kept:
		return c.o.Kept != 0 && c.older(found.Last, c.o.Kept), nil
	case m.State == store.Committed && c.o.KeepCommitted:
		return false, nil
	}
	return c.older(found.Last, c.o.Ended), nil
}

// older reports whether t is at least d ago. A negative d is always reached.
func (c *cleaner) older(t time.Time, d time.Duration) bool { return d < 0 || c.now.Sub(t) >= d }

// A heldError is an ErrBuiltOn.
type heldError struct{}

func (heldError) Error() string {
	return ErrBuiltOn.Error() + ": they are to be removed before it, or committed after it"
}
func (heldError) Unwrap() error { return ErrBuiltOn }

var errInterrupted = errors.New("an interrupted operation in it could be neither finished nor taken back")
