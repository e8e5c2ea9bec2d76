//go:build linux

package project

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/internal/sys"
)

// Scan registers the regular files of a project, and forgets files that are gone, except those that are marked as
// deleted or have a backup. It follows no links, stays on the root's file system, and skips directories called .git,
// because git can restore their contents itself.
//
// Directories that cannot be read are skipped, and the files registered in them stay. Scan returns the first such
// error, after it has done everything else. The whole file system, and a directory that contains the registry's own
// or lies in them, is an error.
func (r *Registry) Scan(ctx context.Context, root string) error {
	if !filepath.IsAbs(root) || !clean(root) {
		return &Error{"scan", root, errors.New("not an absolute path")}
	}
	if err := r.scannable(root); err != nil {
		return &Error{"scan", root, err}
	}
	top, err := openRoot(root)
	if err != nil {
		return &Error{"scan", root, err}
	}
	defer top.close()
	s := &scan{root: root, began: nanos(r.now()), there: map[string]bool{}, unread: map[string]bool{}}
	if err := s.walk(ctx, top); err != nil {
		return err
	}
	if err := s.compare(r); err != nil {
		return err
	}
	// A part in one transaction: others may want to do something in between.
	for part := range slices.Chunk(append(s.files, scanned{}), registerPart) {
		if err := canceled(ctx, "scan", root); err != nil {
			return err
		}
		if err := r.update(func(tx *bbolt.Tx) error { return s.put(r, tx, part) }); err != nil {
			return err
		}
	}
	if len(s.gone) > 0 {
		edited, err := r.copies(editedName, false)
		if err != nil && !missing(err) {
			return err
		}
		defer edited.close()
		if err := r.update(func(tx *bbolt.Tx) error { return s.forget(tx, edited, nanos(r.now())) }); err != nil {
			return err
		}
	}
	return s.first
}

// scannable returns an error if a directory is no project: the whole file system, or one with the registry in it, as a
// home directory is.
func (r *Registry) scannable(root string) error {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil // which opening it says
	}
	if real == "/" {
		return errors.New("the whole file system is no project")
	}
	for _, dir := range [...]string{r.o.Dir, r.o.Cache} {
		if own, err := filepath.EvalSymlinks(dir); err == nil && (paths.Inside(own, real) || paths.Inside(real, own)) {
			return fmt.Errorf("it is no project: %s is nsrun's", escape.Quote(own))
		}
	}
	return nil
}

// scan is one call of Scan.
type scan struct {
	root   string
	began  int64
	files  []scanned       // what is new or different
	there  map[string]bool // all paths, relative
	unread map[string]bool // directories that could not be read, relative
	gone   []string        // absolute
	first  error
}

// scanned is a regular file that a scan met.
type scanned struct {
	path     string // relative; empty: none
	modified int64
	mode     uint32
}

// walk looks at every directory by its path below top, so that a descriptor is enough however deep they are.
func (s *scan) walk(ctx context.Context, top *dir) error {
	var at unix.Stat_t
	if err := unix.Fstat(int(top.fd), &at); err != nil {
		return &Error{"scan", s.root, err}
	}
	for todo := []string{"."}; len(todo) > 0; {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := canceled(ctx, "scan", s.root); err != nil {
			return err
		}
		below, err := s.directory(top, path, at.Dev)
		switch {
		case err == nil:
		case (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP) && path != ".":
			continue // it was there a moment ago, and is not what it was: as if it never were
		default:
			s.unread[path] = true
			if s.first == nil {
				s.first = &Error{"scan", filepath.Join(s.root, path), sys.Bare(err)}
			}
		}
		todo = append(todo, below...)
	}
	return nil
}

func (s *scan) directory(top *dir, path string, dev uint64) (below []string, err error) {
	fd, err := openat(top.fd, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil || st.Dev != dev {
		return nil, err
	}
	for {
		names, err := f.Readdirnames(512)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(int(fd), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone meanwhile
			}
			p := filepath.Join(path, name)
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				s.there[p] = true
				s.files = append(s.files, scanned{p, st.Mtim.Nano(), st.Mode & 0o777})
			case unix.S_IFDIR:
				if name == ".git" {
					s.unread[p] = true
					continue
				}
				below = append(below, p)
			}
		}
		if err == io.EOF {
			return below, nil
		}
		if err != nil {
			return below, err
		}
	}
}

// compare leaves in files what is not recorded as it is, and finds what is gone.
func (s *scan) compare(r *Registry) error {
	return r.view(func(tx *bbolt.Tx) error {
		s.files = slices.DeleteFunc(s.files, func(f scanned) bool {
			id, ok := idOf(tx, filepath.Join(s.root, f.path))
			if !ok {
				return false
			}
			rec, ok, err := getFile(tx, id)
			return err == nil && ok && !rec.Deleted && rec.Modified == f.modified && rec.Mode == f.mode
		})
		below := []byte(strings.TrimSuffix(s.root, "/") + "/")
		c := bucket(tx, pathBucket).Cursor()
		for k, v := c.Seek(below); k != nil && strings.HasPrefix(string(k), string(below)); k, v = c.Next() {
			path := string(k[len(below):])
			if s.there[path] || s.hidden(path) || len(v) != 8 {
				continue
			}
			s.gone = append(s.gone, string(k))
		}
		return nil
	})
}

// hidden reports whether path is where the scan did not look.
func (s *scan) hidden(path string) bool {
	for !s.unread[path] {
		if path == "." {
			return false
		}
		path = filepath.Dir(path)
	}
	return true
}

// put registers files, and notes what is new about those that are.
func (s *scan) put(r *Registry, tx *bbolt.Tx, part []scanned) error {
	now := nanos(r.now())
	if err := see(tx, s.root, moment(s.began), true); err != nil {
		return err
	}
	for _, f := range part {
		if f.path == "" {
			continue
		}
		rec := &fileRecord{Path: text(filepath.Join(s.root, f.path)), Registered: s.began, Modified: f.modified, Mode: f.mode, Updated: s.began}
		id, known, err := r.register(tx, s.root, rec)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		old, ok, err := getFile(tx, id)
		switch {
		case err != nil || !ok:
			old = rec // it cannot be read: begun anew
			old.Project = text(s.root)
		case later(old.Updated, s.began, now):
			continue // somebody knows better
		}
		old.Modified, old.Mode, old.Deleted, old.Updated = f.modified, f.mode, false, s.began
		if err := putFile(tx, id, old); err != nil {
			return err
		}
	}
	return nil
}

// forget drops the records of what is gone, but for those that somebody could want back.
func (s *scan) forget(tx *bbolt.Tx, edited *dir, now int64) error {
	for _, path := range s.gone {
		v := bucket(tx, pathBucket).Get([]byte(path))
		if len(v) != 8 {
			continue
		}
		id := binary.BigEndian.Uint64(v)
		rec, ok, err := getFile(tx, id)
		if err != nil || !ok {
			continue
		}
		if rec.Deleted || later(rec.Registered, s.began-1, now) || later(rec.Updated, s.began, now) || rec.Copy != "" && copyThere(edited, string(rec.Copy)) {
			continue
		}
		if err := dropFile(tx, id, rec); err != nil {
			return err
		}
	}
	return nil
}

// copyThere reports whether a backup is there; what cannot be looked at is.
func copyThere(edited *dir, path string) bool {
	if edited == nil {
		return false
	}
	_, err := edited.lstat(filepath.Base(path))
	return err != unix.ENOENT
}
