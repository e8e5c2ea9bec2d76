//go:build linux

package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/homedir"
	"github.com/nsrun/nsrun/internal/sys"
)

// The journal holds what is not in the database yet. A process appends to it with a shared lock. The process that
// merges it into the database renames it under an exclusive lock, so that nobody waits for the disk:
//
//	registry.journal   lines are appended here
//	registry.merging   the renamed journal, to which nobody appends any more
//
// The second one is removed when its lines are in the database and on disk. If a process is
// killed before that, the next one merges the lines again, which changes nothing.
const (
	journalName = "registry.journal"
	mergingName = "registry.merging"

	// journalMost is how long the journal becomes before it is merged in the background,
	// in bytes. Reading it takes some milliseconds.
	journalMost = 1 << 20
)

// hasJournal reports whether there is anything to be merged.
func hasJournal(d *dir) bool {
	for _, name := range [...]string{mergingName, journalName} {
		if st, err := d.lstat(name); err == nil && (st.Size > 0 || name == mergingName) {
			return true
		}
	}
	return false
}

// append adds one line to the journal. When it returns, other processes see the line, even
// if this one is killed; the line is not on disk.
func (r *Registry) append(o *op) error {
	line := encodeLine(o)
	if len(line) > maxLine {
		return &Error{"write journal", r.o.Dir, fmt.Errorf("a record has %d bytes", len(line))} // nobody would read it
	}
	d, err := r.directory(true)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &Error{"write journal", r.o.Dir, os.ErrClosed}
	}
	size, err := r.write(d, line)
	if err != nil {
		return homedir.Elsewhere(wrap("write journal", filepath.Join(d.path, journalName), err), r.stateVariable)
	}
	if size > journalMost && r.merging.CompareAndSwap(false, true) {
		r.merges.Go(func() {
			defer r.merging.Store(false)
			err := r.update(nil)
			if errors.Is(err, os.ErrClosed) {
				err = nil // it stays in the journal
			}
			r.db.Lock()
			r.mergeErr = err
			r.db.Unlock()
		})
	}
	return nil
}

func openJournal(d *dir) (*os.File, error) {
	return d.file(journalName, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
}

// write appends a line to the present journal, and returns the length of that.
func (r *Registry) write(d *dir, line []byte) (size int64, err error) {
	end := time.Now().Add(r.o.Wait)
	for {
		if r.journal == nil {
			if r.journal, err = openJournal(d); err != nil {
				return 0, err
			}
		}
		if err := lock(r.journal, unix.LOCK_SH, end); err != nil {
			return 0, err
		}
		same, err := isAt(d, journalName, r.journal)
		if err != nil || !same {
			_ = r.journal.Close() // and with it the lock
			r.journal = nil
			if err != nil {
				return 0, err
			}
			continue
		}
		n, err := r.journal.Write(line) // a file on which nothing waits: no deadline, no poller
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(int(r.journal.Fd()), &st)
		}
		if uerr := unix.Flock(int(r.journal.Fd()), unix.LOCK_UN); err == nil {
			err = uerr
		}
		if n > 0 && n < len(line) {
			err = errors.Join(err, io.ErrShortWrite)
		}
		return st.Size, sys.Bare(err)
	}
}

// merge is what one transaction takes out of the journal.
type merge struct{ taken bool }

// take applies what is in the journal. The database is locked: nobody else does.
func (m *merge) take(tx *bbolt.Tx, d *dir, wait time.Duration, now int64) error {
	// Lines that a killed process left come first.
	if _, err := d.lstat(mergingName); err == unix.ENOENT {
		if ok, err := rotate(d, wait); err != nil || !ok {
			return err
		}
	} else if err != nil {
		return err
	}
	m.taken = true
	return applyAll(tx, d, now)
}

// rotate renames the journal, if there is one and no process is stuck while it appends.
func rotate(d *dir, wait time.Duration) (bool, error) {
	f, err := d.file(journalName, unix.O_RDWR)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() == 0 {
		return false, err
	}
	// Appending takes microseconds. A process that is stopped meanwhile delays only this one.
	switch err := lock(f, unix.LOCK_EX, time.Now().Add(min(wait, time.Second))); err {
	case nil:
	case ErrBusy:
		return false, nil
	default:
		return false, err
	}
	return true, unix.Renameat(int(d.fd), journalName, int(d.fd), mergingName)
}

// done removes what was merged, which is on disk now. The database is still locked, or the
// file could be that of another process.
func (m *merge) done(d *dir) error {
	if !m.taken {
		return nil
	}
	return d.unlink(mergingName, 0)
}

func applyAll(tx *bbolt.Tx, d *dir, now int64) error {
	f, err := d.file(mergingName, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return sys.Bare(err)
	}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if len(line) == 0 {
			continue
		}
		o, err := decodeLine(line)
		if err != nil {
			continue // a process was killed while it wrote the line, so append never returned
		}
		if err := apply(tx, o, now); err != nil {
			return err
		}
	}
	return nil
}

// later reports whether something was stored after a time. What has a time after now was stored while the clock was
// wrong; it must not stay for ever.
func later(stored, time, now int64) bool { return stored > time && stored <= now }

// apply applies one op to the database. Applying it again changes nothing.
func apply(tx *bbolt.Tx, o *op, now int64) error {
	if e := o.Execution; e != nil {
		b := bucket(tx, executionBucket)
		if b.Get([]byte(e.ID)) == nil {
			if err := b.Put([]byte(e.ID), encode(e)); err != nil {
				return err
			}
			if e.Session != "" {
				if err := bucket(tx, sessionBucket).Put(sessionKey(string(e.Session), e.ID), nil); err != nil {
					return err
				}
			}
		}
	}
	for i := range o.Files {
		if err := applyFile(tx, &o.Files[i], now); err != nil {
			return err
		}
	}
	if o.Settle != nil {
		return applySettle(tx, o.Settle, now)
	}
	if o.Drop != nil {
		return applyDrop(tx, o.Drop, now)
	}
	return nil
}

func applyFile(tx *bbolt.Tx, f *fileOp, now int64) error {
	id := f.ID
	if id == 0 {
		var ok bool
		if id, ok = idOf(tx, string(f.Path)); !ok {
			return nil // dropped meanwhile
		}
	}
	rec, ok, err := getFile(tx, id)
	if err != nil || !ok {
		return err
	}
	if f.Backup != nil {
		key := backupKey(id, f.Date)
		if b := bucket(tx, backupBucket); b.Get(key) == nil {
			if err := b.Put(key, encode(f.Backup)); err != nil {
				return err
			}
		}
		// Names of one file differ in the day, and days are in order.
		if rec.Copy == "" || copyDate(rec.Copy) <= f.Date {
			rec.Copy = f.Copy
		}
	}
	if f.Time != 0 && !later(rec.Updated, f.Time, now) {
		rec.Updated, rec.Deleted = f.Time, !f.There
		if f.There {
			rec.Modified, rec.Mode = f.Modified, f.Mode
		} else if rec.Copy == "" {
			return dropFile(tx, id, rec) // there is nothing to keep it for
		}
	}
	return putFile(tx, id, rec)
}

func copyDate(copy text) string {
	_, date, _ := parseBackup(filepath.Base(string(copy)))
	return date
}

func applySettle(tx *bbolt.Tx, s *settleOp, now int64) error {
	return inSession(tx, s.Session, func(e *executionRecord) bool {
		if later(e.Settled, s.Time, now) {
			return false
		}
		e.State, e.Settled = s.State, s.Time
		return true
	})
}

// applyDrop marks what was dropped in the execution that changed it last, and in earlier ones
// that were not committed, not even in part.
func applyDrop(tx *bbolt.Tx, o *dropOp, now int64) error {
	if o.Back {
		return applyUndrop(tx, o, now)
	}
	newest := make(map[string]string, len(o.Names)) // name → id of an execution
	for _, name := range o.Names {
		newest[string(name)] = ""
	}
	began := map[string]int64{}
	err := eachChange(tx, o, now, func(e *executionRecord, c *changeRecord, name string) bool {
		if id, ok := newest[name]; ok && !c.Dropped && (id == "" || e.Began >= began[name]) {
			newest[name], began[name] = e.ID, e.Began
		}
		return false
	})
	if err != nil {
		return err
	}
	return eachChange(tx, o, now, func(e *executionRecord, c *changeRecord, name string) bool {
		id, ok := newest[name]
		if !ok || c.Dropped || id != e.ID && (e.State == StatePart || e.State == StateCommitted) {
			return false
		}
		c.Dropped, c.DroppedAt = true, o.Time
		return true
	})
}

// applyUndrop takes back the marks of a drop: of what the last execution that changed it has as dropped, and in all
// executions those of the same drop.
func applyUndrop(tx *bbolt.Tx, o *dropOp, now int64) error {
	type mark struct {
		began, at int64
		dropped   bool
	}
	newest := make(map[string]mark, len(o.Names))
	for _, name := range o.Names {
		newest[string(name)] = mark{began: math.MinInt64}
	}
	err := eachChange(tx, o, now, func(e *executionRecord, c *changeRecord, name string) bool {
		if m, ok := newest[name]; ok && e.Began >= m.began {
			newest[name] = mark{e.Began, c.DroppedAt, c.Dropped}
		}
		return false
	})
	if err != nil {
		return err
	}
	return eachChange(tx, o, now, func(_ *executionRecord, c *changeRecord, name string) bool {
		m, ok := newest[name]
		if !ok || !m.dropped || !c.Dropped || c.DroppedAt != m.at || later(c.DroppedAt, o.Time, now) {
			return false
		}
		c.Dropped, c.DroppedAt = false, 0
		return true
	})
}

// eachChange calls do for the changes of the session's executions that began before an op, and stores those executions
// of which do returns true.
func eachChange(tx *bbolt.Tx, o *dropOp, now int64, do func(e *executionRecord, c *changeRecord, name string) bool) error {
	return inSession(tx, o.Session, func(e *executionRecord) (changed bool) {
		if later(e.Began, o.Time, now) {
			return false // it wrote there again
		}
		for i := range e.Changes {
			c := &e.Changes[i]
			changed = do(e, c, filepath.Join(string(e.Roots[c.Root]), string(c.Path))) || changed
		}
		return changed
	})
}

func inSession(tx *bbolt.Tx, session text, change func(*executionRecord) bool) error {
	executions := bucket(tx, executionBucket)
	prefix := sessionKey(string(session), "")
	c := bucket(tx, sessionBucket).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		id := bytes.Clone(k[len(prefix):])
		v := executions.Get(id)
		var e executionRecord
		if v == nil || decode(v, &e) != nil || !change(&e) {
			continue
		}
		if err := executions.Put(id, encode(&e)); err != nil {
			return err
		}
	}
	return nil
}
