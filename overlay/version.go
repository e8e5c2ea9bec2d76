//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// File opens one version of a changed regular file for reading, with its present content. If
// somebody replaced the file since the change was found, the error is ErrMoved. If that side has no
// regular file at this path, it is fs.ErrNotExist.
func (s *Session) File(c Change, side Side) (*os.File, error) {
	d, name, st, err := s.version(c, side)
	if err != nil {
		return nil, s.versionError("open", c, err)
	}
	defer d.close()
	if !st.IsReg() {
		return nil, s.versionError("open", c, fs.ErrNotExist)
	}
	f, err := d.File(name, st)
	if err != nil {
		return nil, s.versionError("open", c, err)
	}
	return f.OSFile(filepath.Join(c.Root, c.Path)), nil
}

// Mode returns type and mode of one version of an object: of the project's, or of the session's. If
// that side has nothing there, the error is fs.ErrNotExist: Before an addition, After a deletion,
// or if the session did not change it. It uses only Root and Path of c.
func (s *Session) Mode(c Change, side Side) (fs.FileMode, error) {
	d, _, st, err := s.version(c, side)
	if err != nil {
		return 0, s.versionError("look at", c, err)
	}
	d.close()
	return st.FileMode(), nil
}

// Removed reports whether the session has removed the project's object at the path of c. It uses only Root and Path of
// c. It does not look into a directory that the session removed and created again.
func (s *Session) Removed(c Change) (bool, error) {
	top, err := s.side(c, After)
	if err != nil {
		return false, s.versionError("look at", c, err)
	}
	defer top.Close()
	at, name := tree.SplitPath(c.Path)
	if c.Path == "." {
		return false, nil
	}
	d, err := top.At(at)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, s.versionError("look at", c, err)
	}
	defer d.Close()
	st, ok, err := d.Lstat(name)
	if err != nil {
		return false, s.versionError("look at", c, err)
	}
	return ok && st.IsWhiteout(), nil
}

// Link returns the text of one version of a changed symbolic link. If that side has no link at this
// path, the error is fs.ErrNotExist.
func (s *Session) Link(c Change, side Side) (string, error) {
	d, name, st, err := s.version(c, side)
	if err != nil {
		return "", s.versionError("read link", c, err)
	}
	defer d.close()
	if st.Typ() != unix.S_IFLNK {
		return "", s.versionError("read link", c, fs.ErrNotExist)
	}
	text, err := d.Link(name, st)
	if err != nil {
		return "", s.versionError("read link", c, err)
	}
	return text, nil
}

// Below yields everything in a directory of the project that c deleted or replaced, as Deleted
// changes in path order. For other changes it yields nothing.
func (s *Session) Below(c Change) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if !c.OldMode.IsDir() || c.Mode.IsDir() && c.Kind != Deleted {
			return
		}
		low, err := s.side(c, Before)
		if err != nil {
			yield(Change{}, err)
			return
		}
		defer low.Close()
		at, err := tree.WalkBelow(low, c.Path, func(f tree.Found) bool {
			m := f.Stat.FileMode()
			d := Change{Kind: Deleted, Root: c.Root, Path: f.Path, Mode: m, OldMode: m}
			if f.Stat.IsReg() {
				d.Size, d.OldSize = f.Stat.Size, f.Stat.Size
			}
			return yield(d, nil)
		})
		if err != nil {
			yield(Change{}, &Error{Op: "list", Path: filepath.Join(c.Root, at), Err: err})
		}
	}
}

func (s *Session) side(c Change, side Side) (tree.Tree, error) {
	for i, r := range s.roots {
		if r.Path != c.Root {
			continue
		}
		up, low, err := s.trees(i)
		if err != nil {
			return nil, err
		}
		if side == After {
			low.Close()
			return up, nil
		}
		up.Close()
		return low, nil
	}
	return nil, &Error{Op: "open", Path: c.Root, Err: fs.ErrNotExist}
}

// version opens the directory that holds one version of what changed. Its tree is closed with it.
func (s *Session) version(c Change, side Side) (d *versionDir, name string, st tree.Stat, err error) {
	top, err := s.side(c, side)
	if err != nil {
		return nil, "", tree.Stat{}, err
	}
	at, name := tree.SplitPath(c.Path)
	if c.Path == "." {
		top.Close()
		return nil, "", tree.Stat{}, fs.ErrNotExist // the root is a directory on both sides
	}
	d = &versionDir{t: top}
	if d.Dir, err = top.At(at); err != nil {
		top.Close()
		return nil, "", tree.Stat{}, err
	}
	st, ok, err := d.Lstat(name)
	if err == nil && (!ok || st.IsWhiteout()) {
		err = fs.ErrNotExist
	}
	if err != nil {
		d.close()
		return nil, "", tree.Stat{}, err
	}
	return d, name, st, nil
}

// A versionDir is a directory that owns its tree.
type versionDir struct {
	tree.Dir
	t tree.Tree
}

func (d *versionDir) close() {
	d.Dir.Close()
	d.t.Close()
}

func (s *Session) versionError(op string, c Change, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return &Error{Op: op, Path: filepath.Join(c.Root, c.Path), Err: err}
}
