//go:build linux

package project

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

const (
	// orphanAge is how old what is not complete must be: another process may be making it.
	orphanAge = time.Hour

	cleanEvery = 24 * time.Hour
	stampName  = "registry.cleaned" // when CleanDaily last did something
)

// Clean removes backups and before-versions that are older than Options.Retention, the records of deleted files that
// were kept only for these, and executions in the audit log beyond Options.LogRetention and LogMost. It removes only
// names that this package gives, in its own two directories, and follows no links.
//
// A backup's age is counted from the end of its day. Clean returns the first error, after it has done everything else.
func (r *Registry) Clean(ctx context.Context) (c Cleaned, err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	note(r.cleanBackups(ctx, &c))
	note(r.cleanBefores(ctx, &c))
	if canceled := canceled(ctx, "clean", r.o.Dir); canceled != nil {
		note(canceled)
		return c, err
	}
	note(r.cleanRecords(&c))
	return c, err
}

// CleanDaily is Clean, unless that was done within the last day. Then it costs next to nothing.
func (r *Registry) CleanDaily(ctx context.Context) error {
	d, err := r.directory(false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if st, err := d.lstat(stampName); err == nil {
		if age := r.now().Sub(time.Unix(st.Mtim.Unix())); age >= 0 && age < cleanEvery {
			return nil
		}
	}
	// The stamp comes first: others need not do the same meanwhile.
	if err := d.unlink(stampName, 0); err != nil && err != unix.ENOENT {
		return &Error{"remove", filepath.Join(d.path, stampName), err}
	}
	f, err := d.file(stampName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return &Error{"make", filepath.Join(d.path, stampName), err}
	}
	_ = f.Close()
	_, err = r.Clean(ctx)
	return err
}

// old reports whether a backup's day ended longer ago than it is to be kept.
func (r *Registry) old(date string) bool {
	day, err := time.ParseInLocation(dateLayout, date, time.Local)
	return err == nil && r.now().Sub(day.AddDate(0, 0, 1)) >= r.o.Retention
}

func (r *Registry) cleanBackups(ctx context.Context, c *Cleaned) error {
	d, err := r.copies(editedName, false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return wrap("list", d.path, err)
	}
	var first error
	for _, name := range names {
		if err := canceled(ctx, "clean", d.path); err != nil {
			return err
		}
		st, err := d.lstat(name)
		if err != nil || owned(&st, unix.S_IFREG) != nil {
			continue // none of ours
		}
		_, date, ours := parseBackup(name)
		part := isPart(name) && r.now().Sub(time.Unix(st.Ctim.Unix())) >= orphanAge
		if !part && (!ours || !r.old(date)) {
			continue
		}
		if err := d.unlink(name, 0); err != nil && err != unix.ENOENT {
			if first == nil {
				first = &Error{"remove", filepath.Join(d.path, name), err}
			}
			continue
		}
		if ours {
			c.Backups++
			if st.Nlink == 1 {
				c.Size += st.Size
			}
		}
	}
	return first
}

// isPart reports whether name is one of a copy that is not complete.
func isPart(name string) bool {
	random, ok := strings.CutPrefix(name, newPrefix)
	return ok && len(random) == 8 && strings.Trim(random, sys.Letters) == ""
}

func (r *Registry) cleanBefores(ctx context.Context, c *Cleaned) error {
	temp, err := r.copies(tempName, false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer temp.close()
	names, err := temp.names()
	if err != nil {
		return wrap("list", temp.path, err)
	}
	var first error
	for _, name := range names {
		if err := canceled(ctx, "clean", temp.path); err != nil {
			return err
		}
		if !isExecution(name) || r.now().Sub(executionTime(name)) < r.o.Retention {
			continue
		}
		switch ok, err := removeBefores(temp, name, c); {
		case err != nil && first == nil:
			first = wrap("remove", filepath.Join(temp.path, name), err)
		case ok:
			c.Befores++
		}
	}
	return first
}

// removeBefores removes an execution's directory; ok is false if there is something in it
// that is not ours, which stays.
func removeBefores(temp *dir, name string, c *Cleaned) (ok bool, err error) {
	d, err := temp.sub(name, false)
	if err != nil {
		return false, nil // no directory, or somebody else's
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return false, err
	}
	for _, n := range names {
		st, err := d.lstat(n)
		if err != nil || !isBefore(n) || owned(&st, unix.S_IFREG) != nil {
			continue
		}
		if err := d.unlink(n, 0); err != nil && err != unix.ENOENT {
			return false, err
		}
		if st.Nlink == 1 {
			c.Size += st.Size
		}
	}
	err = temp.unlink(name, unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.ENOENT {
		return false, nil
	}
	return err == nil, err
}

// cleanRecords brings the database to what is there.
func (r *Registry) cleanRecords(c *Cleaned) error {
	if d, err := r.directory(false); err != nil {
		if missing(err) {
			err = nil
		}
		return err
	} else if _, err := d.lstat(dbName); err == unix.ENOENT && !hasJournal(d) {
		return nil
	}
	edited, err := r.copies(editedName, false)
	if err != nil && !missing(err) {
		return err // not the same as that there are no backups
	}
	defer edited.close()
	var n Cleaned
	err = r.update(func(tx *bbolt.Tx) error {
		n = Cleaned{}
		if err := r.cleanFiles(tx, edited, &n); err != nil {
			return err
		}
		return r.cleanLog(tx, &n)
	})
	if err == nil {
		c.Files, c.Executions = n.Files, n.Executions
	}
	return err
}

func (r *Registry) cleanFiles(tx *bbolt.Tx, edited *dir, c *Cleaned) error {
	type change struct {
		id  uint64
		rec *fileRecord
	}
	var changes []change
	b := bucket(tx, fileBucket).Cursor()
	for k, v := b.First(); k != nil; k, v = b.Next() {
		rec := new(fileRecord)
		if len(k) != 8 || decode(v, rec) != nil {
			continue
		}
		if rec.Deleted || rec.Copy != "" {
			changes = append(changes, change{binary.BigEndian.Uint64(k), rec})
		}
	}
	for _, ch := range changes {
		newest := text("")
		for key, b := range backupsOf(tx, ch.id) {
			if !copyThere(edited, string(b.Name)) {
				if err := bucket(tx, backupBucket).Delete(key); err != nil {
					return err
				}
				continue
			}
			newest = text(filepath.Join(r.o.Cache, editedName, string(b.Name)))
		}
		var err error
		switch {
		case newest == "" && ch.rec.Deleted:
			c.Files++
			err = dropFile(tx, ch.id, ch.rec)
		case newest != ch.rec.Copy:
			ch.rec.Copy = newest
			err = putFile(tx, ch.id, ch.rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) cleanLog(tx *bbolt.Tx, c *Cleaned) error {
	b := bucket(tx, executionBucket)
	var ids [][]byte
	session := map[string]text{}
	cursor := b.Cursor()
	n := 0
	for k, v := cursor.Last(); k != nil; k, v = cursor.Prev() {
		if n++; n <= r.o.LogMost && r.now().Sub(executionTime(string(k))) < r.o.LogRetention {
			continue
		}
		ids = append(ids, append([]byte(nil), k...))
		var rec executionRecord
		if decode(v, &rec) == nil {
			session[string(k)] = rec.Session
		}
	}
	for _, id := range ids {
		if err := b.Delete(id); err != nil {
			return err
		}
		if s := session[string(id)]; s != "" {
			if err := bucket(tx, sessionBucket).Delete(sessionKey(string(s), string(id))); err != nil {
				return err
			}
		}
		c.Executions++
	}
	return nil
}
