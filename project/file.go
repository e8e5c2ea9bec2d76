//go:build linux

package project

import (
	"encoding/binary"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

func idOf(tx *bbolt.Tx, path string) (uint64, bool) {
	v := bucket(tx, pathBucket).Get([]byte(path))
	if len(v) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(v), true
}

// getFile reads a file's record. If it cannot be read, ok is false.
func getFile(tx *bbolt.Tx, id uint64) (*fileRecord, bool, error) {
	v := bucket(tx, fileBucket).Get(number(id))
	if v == nil {
		return nil, false, nil
	}
	rec := new(fileRecord)
	err := decode(v, rec)
	return rec, err == nil, err
}

func putFile(tx *bbolt.Tx, id uint64, rec *fileRecord) error {
	return bucket(tx, fileBucket).Put(number(id), encode(rec))
}

// dropFile removes a file's record, and those of its backups.
func dropFile(tx *bbolt.Tx, id uint64, rec *fileRecord) error {
	if other, ok := idOf(tx, string(rec.Path)); ok && other == id {
		if err := bucket(tx, pathBucket).Delete([]byte(rec.Path)); err != nil {
			return err
		}
	}
	for key := range backupsOf(tx, id) {
		if err := bucket(tx, backupBucket).Delete(key); err != nil {
			return err
		}
	}
	return bucket(tx, fileBucket).Delete(number(id))
}

// backupsOf yields the records of a file's backups, the oldest first.
func backupsOf(tx *bbolt.Tx, id uint64) iter.Seq2[[]byte, backupRecord] {
	type pair struct {
		key []byte
		rec backupRecord
	}
	var list []pair // complete before the first yield: the caller may delete
	prefix := number(id)
	c := bucket(tx, backupBucket).Cursor()
	for k, v := c.Seek(prefix); len(k) > 8 && string(k[:8]) == string(prefix); k, v = c.Next() {
		var rec backupRecord
		if decode(v, &rec) == nil {
			list = append(list, pair{append([]byte(nil), k...), rec})
		}
	}
	return func(yield func([]byte, backupRecord) bool) {
		for _, p := range list {
			if !yield(p.key, p.rec) {
				return
			}
		}
	}
}

// register returns the id of a path, and gives it one if it has none; known says that it had one.
func (r *Registry) register(tx *bbolt.Tx, project string, rec *fileRecord) (id uint64, known bool, err error) {
	if id, known := idOf(tx, string(rec.Path)); known {
		return id, true, nil
	}
	b := bucket(tx, fileBucket)
	if b.Sequence() == 0 {
		last, err := r.lastCopied()
		if err == nil {
			err = b.SetSequence(last)
		}
		if err != nil {
			return 0, false, err
		}
	}
	id, err = b.NextSequence()
	if err != nil {
		return 0, false, err
	}
	rec.Project = text(project)
	if err := bucket(tx, pathBucket).Put([]byte(rec.Path), number(id)); err != nil {
		return 0, false, err
	}
	return id, false, putFile(tx, id, rec)
}

// lastCopied is the highest id in the names of backups. A new database begins with the next one, because a lost
// database gave these ids to other files.
func (r *Registry) lastCopied() (last uint64, err error) {
	edited, err := r.copies(editedName, false)
	if missing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer edited.close()
	names, err := edited.names()
	for _, name := range names {
		if id, _, ok := parseBackup(name); ok {
			last = max(last, id)
		}
	}
	return last, wrap("list", edited.path, err)
}

// see records that a project exists.
func see(tx *bbolt.Tx, root string, now time.Time, scanned bool) error {
	b := bucket(tx, projectBucket)
	rec := projectRecord{Seen: nanos(now)}
	if v := b.Get([]byte(root)); v != nil {
		var old projectRecord
		if decode(v, &old) == nil {
			if !scanned {
				return nil
			}
			rec = old
		}
	}
	if scanned {
		rec.Scanned = nanos(now)
	}
	return b.Put([]byte(root), encode(&rec))
}

// Projects returns the known projects, in the order of their paths.
func (r *Registry) Projects() (list []Root, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		return bucket(tx, projectBucket).ForEach(func(k, v []byte) error {
			var rec projectRecord
			if err := decode(v, &rec); err != nil {
				return err
			}
			list = append(list, Root{string(k), moment(rec.Seen), moment(rec.Scanned)})
			return nil
		})
	})
	return list, err
}

// Files yields the registered files at and below path, which must be absolute, in the order of paths. An empty path
// means all files. If a record cannot be read, it yields an error, and goes on with the others.
func (r *Registry) Files(path string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		view := r.view
		after, first := []byte(nil), true
		below := strings.TrimSuffix(path, "/") + "/"
		for {
			type found struct {
				f   File
				err error
			}
			const part = 1024
			var list []found
			more := false
			err := view(func(tx *bbolt.Tx) error {
				c := bucket(tx, pathBucket).Cursor()
				k, v := c.Seek([]byte(path))
				if !first {
					if k, v = c.Seek(after); k != nil && string(k) == string(after) {
						k, v = c.Next()
					}
				}
				for ; k != nil; k, v = c.Next() {
					name := string(k)
					if path != "" && name != path && !strings.HasPrefix(name, below) {
						if name > below && !strings.HasPrefix(name, path) {
							return nil
						}
						continue // "a-b" stands between "a" and "a/b"
					}
					if len(list) == part {
						more = true
						return nil
					}
					after, first = append(after[:0], k...), false
					if len(v) != 8 {
						list = append(list, found{err: &Error{"read record", name, ErrDamaged}})
						continue
					}
					f, ok, err := r.file(tx, binary.BigEndian.Uint64(v))
					switch {
					case err != nil:
						list = append(list, found{err: &Error{"read record", name, err}})
					case ok:
						list = append(list, found{f: f})
					}
				}
				return nil
			})
			if err != nil {
				yield(File{}, err)
				return
			}
			for _, found := range list {
				if !yield(found.f, found.err) {
					return
				}
			}
			if !more {
				return
			}
			view = r.viewAsIs
		}
	}
}

// File returns the record of the file at path, which must be absolute. If the file is not
// registered, the error is fs.ErrNotExist.
func (r *Registry) File(path string) (f File, err error) {
	ok := false
	err = r.view(func(tx *bbolt.Tx) (err error) {
		if id, found := idOf(tx, path); found {
			f, ok, err = r.file(tx, id)
		}
		return err
	})
	if err == nil && !ok {
		err = &Error{"find", path, errNotRegistered}
	}
	return f, err
}

var errNotRegistered = notRegistered{}

type notRegistered struct{}

func (notRegistered) Error() string        { return "it is not registered" }
func (notRegistered) Is(target error) bool { return target == fs.ErrNotExist }

func (r *Registry) file(tx *bbolt.Tx, id uint64) (File, bool, error) {
	rec, ok, err := getFile(tx, id)
	if !ok || err != nil {
		return File{}, false, err
	}
	f := File{
		ID: int64(id), Path: string(rec.Path), Project: string(rec.Project), LastModified: moment(rec.Modified),
		LastApprovedCopyPath: string(rec.Copy), Deleted: rec.Deleted, Mode: unbits(rec.Mode),
	}
	for key, b := range backupsOf(tx, id) {
		f.Backups = append(f.Backups, Backup{
			Path: f.Path, Copy: filepath.Join(r.o.Cache, editedName, string(b.Name)), Date: string(key[8:]),
			Size: b.Size, Mode: unbits(b.Mode), Execution: b.Whose, owner: b.Owner,
		})
	}
	// Newest first. The names of days sort by date until the century ends.
	for i, j := 0, len(f.Backups)-1; i < j; i, j = i+1, j-1 {
		f.Backups[i], f.Backups[j] = f.Backups[j], f.Backups[i]
	}
	return f, true, nil
}
