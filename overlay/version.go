package overlay

import (
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Side is one of the two versions of what changed. The zero Side is none.
type Side uint8

// The two sides of a change.
const (
	Before Side = iota + 1 // what the project has
	After                  // what the session made of it
)

// File opens one version of a changed regular file for reading. What it yields is
// what is there now: a file that somebody replaced since the change was found is
// ErrMoved. A side that has no regular file at this path is fs.ErrNotExist.
func (s *Session) File(c Change, side Side) (*os.File, error) {
	d, name, st, err := s.version(c, side)
	if err != nil {
		return nil, s.versionError("open", c, err)
	}
	defer d.close()
	if !st.isReg() {
		return nil, s.versionError("open", c, fs.ErrNotExist)
	}
	f, err := d.openFile(name, st, side == After && !s.readOnly)
	if err != nil {
		return nil, s.versionError("open", c, err)
	}
	return os.NewFile(uintptr(f.fd), filepath.Join(c.Root, c.Path)), nil
}

// Link returns the text of one version of a changed symbolic link. A side that has
// no link at this path is fs.ErrNotExist.
func (s *Session) Link(c Change, side Side) (string, error) {
	d, name, st, err := s.version(c, side)
	if err != nil {
		return "", s.versionError("read link", c, err)
	}
	defer d.close()
	if st.typ() != unix.S_IFLNK {
		return "", s.versionError("read link", c, fs.ErrNotExist)
	}
	text, err := readlinkOf(d, name, st)
	if err != nil {
		return "", s.versionError("read link", c, err)
	}
	return text, nil
}

// Below yields everything in a directory of the project that c deleted, or put
// something else in the place of, as Deleted changes in path order. For other changes
// it yields nothing.
func (s *Session) Below(c Change) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if !c.OldMode.IsDir() || c.Mode.IsDir() && c.Kind != Deleted {
			return
		}
		low, i, err := s.side(c, Before)
		if err != nil {
			yield(Change{}, err)
			return
		}
		defer low.close()
		cm := commit{s: s, layers: make([]layer, len(s.roots))}
		cm.layers[i].low = low
		stop := false
		err = cm.below(place{i, c.Path}, func(p string, st stat) {
			if stop {
				return
			}
			d := Change{Kind: Deleted, Root: c.Root, Path: p, Mode: st.fileMode(), OldMode: st.fileMode()}
			if st.isReg() {
				d.Size, d.OldSize = st.size, st.size
			}
			stop = !yield(d, nil)
		})
		if err != nil && !stop {
			yield(Change{}, err)
		}
	}
}

// side opens the top directory of one side of the root that c is in.
func (s *Session) side(c Change, side Side) (*handle, int, error) {
	for i, r := range s.roots {
		if r.Path != c.Root {
			continue
		}
		w := walker{index: i, root: r.Path}
		if err := s.openLayers(&w); err != nil {
			return nil, 0, err
		}
		if side == After {
			w.low.close()
			return w.up, i, nil
		}
		w.up.close()
		return w.low, i, nil
	}
	return nil, 0, &Error{Op: "open", Path: c.Root, Err: fs.ErrNotExist}
}

// version opens the directory that holds one version of what changed.
func (s *Session) version(c Change, side Side) (d *handle, name string, st stat, err error) {
	top, _, err := s.side(c, side)
	if err != nil {
		return nil, "", stat{}, err
	}
	defer top.close()
	at, name := splitPath(c.Path)
	if d, err = top.open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
		return nil, "", stat{}, err
	}
	if st, err = d.lstat(name); err != nil {
		d.close()
		return nil, "", stat{}, err
	}
	return d, name, st, nil
}

func (s *Session) versionError(op string, c Change, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return &Error{Op: op, Path: filepath.Join(c.Root, c.Path), Err: err}
}
