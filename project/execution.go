//go:build linux

package project

import (
	"bytes"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
)

// wasFile and isFile report whether there was, and is, a regular file.
func (c Change) wasFile() bool { return c.Kind != Added && c.OldMode.IsRegular() }
func (c Change) isFile() bool  { return c.Kind != Deleted && c.Mode.IsRegular() }

const idLayout = "20060102T150405.000Z"

// newExecution makes an id. Ids are in order of time, to the millisecond.
func newExecution(t time.Time) string { return t.UTC().Format(idLayout) + "-" + sys.RandomText(8) }

// isExecution reports whether newExecution could have made the name, which is also that of a directory.
func isExecution(name string) bool {
	when, random, ok := strings.Cut(name, "-")
	if !ok || len(random) != 8 || strings.Trim(random, sys.Letters) != "" {
		return false
	}
	t, err := time.Parse(idLayout, when)
	return err == nil && t.Format(idLayout) == when
}

// executionTime is when the execution with this id began.
func executionTime(id string) time.Time {
	when, _, _ := strings.Cut(id, "-")
	t, _ := time.Parse(idLayout, when)
	return t
}

func (e *Execution) record() *executionRecord {
	return &executionRecord{
		ID: e.ID, Session: text(e.Session), Command: texts(e.Command), Dir: text(e.Dir), Roots: texts(e.Roots),
		Began: nanos(e.Began), Ended: nanos(e.Ended), ExitCode: e.ExitCode, Signal: text(e.Signal), TimedOut: e.TimedOut,
		Denied: texts(e.Denied), Network: text(e.Network), Backend: text(e.Backend), Engine: text(e.Engine), State: text(e.State),
		More: e.More,
	}
}

// execution returns the Execution of a record. temp is the directory of before-versions.
func (rec *executionRecord) execution(temp string) Execution {
	e := Execution{
		ID: rec.ID, Session: string(rec.Session), Command: plain(rec.Command), Dir: string(rec.Dir), Roots: plain(rec.Roots),
		Began: moment(rec.Began), Ended: moment(rec.Ended), ExitCode: rec.ExitCode, Signal: string(rec.Signal), TimedOut: rec.TimedOut,
		Denied: plain(rec.Denied), Network: string(rec.Network), Backend: string(rec.Backend), Engine: string(rec.Engine), State: string(rec.State),
		More: rec.More,
	}
	for _, c := range rec.Changes {
		ch := Change{Kind: c.Kind, Root: e.Roots[c.Root], Path: string(c.Path), Mode: unbits(c.Mode), OldMode: unbits(c.OldMode), Size: c.Size, OldSize: c.OldSize, Dropped: c.Dropped, Runs: string(c.Runs)}
		if c.Before != "" {
			ch.Before = filepath.Join(temp, rec.ID, string(c.Before))
		}
		e.Changes = append(e.Changes, ch)
	}
	return e
}

func (f *Filter) takes(e *Execution) bool {
	if f.ID != "" && f.ID != "last" && !idMeans(e.ID, f.ID) || f.Session != "" && e.Session != f.Session {
		return false
	}
	if f.Path == "" {
		return true
	}
	for _, c := range e.Changes {
		if paths.Inside(c.Name(), f.Path) {
			return true
		}
	}
	// Changes that are not listed could be anywhere in the projects.
	if e.More > 0 {
		for _, root := range e.Roots {
			if paths.Inside(root, f.Path) {
				return true
			}
		}
	}
	return false
}

// idMeans reports whether a user's word stands for the execution with this id.
func idMeans(id, said string) bool {
	_, random, _ := strings.Cut(id, "-")
	return id == said || len(said) >= 4 && strings.HasPrefix(random, said)
}

// IsExecution reports whether word has the form of a whole execution id.
func IsExecution(word string) bool { return isExecution(word) }

// Executions yields the executions, newest first. If one cannot be read, it yields an error, and goes on with the
// others. The registry may be used meanwhile.
func (r *Registry) Executions(f Filter) iter.Seq2[Execution, error] {
	return func(yield func(Execution, error) bool) {
		if f.ID == "last" {
			f.Most = 1
		}
		temp := filepath.Join(r.o.Cache, tempName)
		if f.Session != "" {
			r.ofSession(f, temp, yield)
			return
		}
		view := r.view // the journal is merged once
		var before []byte
		n := 0
		for {
			// One part at a time, so that the database is not locked while the caller works.
			type found struct {
				e   Execution
				err error
			}
			const part = 256
			var list []found
			seen := 0
			err := view(func(tx *bbolt.Tx) error {
				c := bucket(tx, executionBucket).Cursor()
				k, v := c.Last()
				if before != nil {
					if k, v = c.Seek(before); k == nil {
						k, v = c.Last()
					}
					for k != nil && bytes.Compare(k, before) >= 0 {
						k, v = c.Prev()
					}
				}
				for ; k != nil && seen < part; k, v = c.Prev() {
					seen++
					before = bytes.Clone(k)
					var rec executionRecord
					if err := decode(v, &rec); err != nil {
						list = append(list, found{err: &Error{"read execution", string(k), err}})
						continue
					}
					if e := rec.execution(temp); f.takes(&e) {
						list = append(list, found{e: e})
					}
				}
				return nil
			})
			if err != nil {
				yield(Execution{}, err)
				return
			}
			for _, found := range list {
				if !yield(found.e, found.err) {
					return
				}
				if found.err == nil {
					n++
				}
				if f.Most > 0 && n >= f.Most {
					return
				}
			}
			if seen < part {
				return
			}
			view = r.viewAsIs
		}
	}
}

// ofSession is Executions for one session: there is an index.
func (r *Registry) ofSession(f Filter, temp string, yield func(Execution, error) bool) {
	var list []Execution
	var errs []error
	err := r.view(func(tx *bbolt.Tx) error {
		prefix := sessionKey(f.Session, "")
		c := bucket(tx, sessionBucket).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			var rec executionRecord
			v := bucket(tx, executionBucket).Get(k[len(prefix):])
			if v == nil {
				continue
			}
			if err := decode(v, &rec); err != nil {
				errs = append(errs, &Error{"read execution", string(k[len(prefix):]), err})
			} else if e := rec.execution(temp); f.takes(&e) {
				list = append(list, e)
			}
		}
		return nil
	})
	if err != nil {
		errs = append(errs, err)
	}
	for _, err := range errs {
		if !yield(Execution{}, err) {
			return
		}
	}
	n := 0
	for _, e := range slices.Backward(list) {
		if n++; f.Most > 0 && n > f.Most || !yield(e, nil) {
			return
		}
	}
}

// OpenBefore opens the version of a file from before an execution changed it. If it was not kept, or Clean removed it,
// the error is fs.ErrNotExist.
func (r *Registry) OpenBefore(c Change) (*os.File, error) {
	const op = "open version"
	if c.Before == "" {
		return nil, &Error{op, c.Name(), fs.ErrNotExist}
	}
	id, name := filepath.Base(filepath.Dir(c.Before)), filepath.Base(c.Before)
	if !isExecution(id) || !isBefore(name) {
		return nil, &Error{op, c.Before, fs.ErrNotExist}
	}
	temp, err := r.copies(tempName, false)
	if err != nil {
		return nil, err
	}
	defer temp.close()
	d, err := temp.sub(id, false)
	if err != nil {
		return nil, wrap(op, c.Before, err)
	}
	defer d.close()
	f, err := d.file(name, unix.O_RDONLY)
	return f, wrap(op, c.Before, err)
}
