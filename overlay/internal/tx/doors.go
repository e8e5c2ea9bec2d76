//go:build linux

package tx

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// If the caller owns a directory but has no access to it, its mode is changed while nsrun works in it. Before that, the
// directory is noted in a book, so that after a crash the next process can restore the mode.

// restoreMode sets the mode of an object below top, if it is still the same object. If the
// mode was another one, and changed is not nil, it calls changed with the state before.
func restoreMode(top *tree.Handle, path string, ino uint64, mode uint32, changed func(h *tree.Handle, before tree.Stat)) error {
	h, err := top.Open(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer h.Close()
	st, err := h.Stat()
	if err != nil || st.Ino != ino || st.Perm() == mode {
		return err
	}
	if err := h.Chmod(mode); err != nil {
		return err
	}
	if changed != nil {
		changed(h, st)
	}
	return nil
}

// CTimes are the ctimes that directories of a project got because nsrun changed their modes,
// in order, beginning with the ctime before. Nobody else changed these directories.
type CTimes map[store.Place][]int64

// Follow notes that nsrun changed the mode of a directory; before is its state before that.
// If somebody else changed the directory meanwhile, the new ctime is not noted.
func (c *CTimes) Follow(at store.Place, before tree.Stat, h *tree.Handle) {
	now, err := h.Stat()
	if err != nil || now.Mtime != before.Mtime || now.UID != before.UID || now.GID != before.GID {
		return
	}
	list := (*c)[at]
	if len(list) == 0 || list[len(list)-1] != before.Ctime {
		list = []int64{before.Ctime}
	}
	if *c == nil {
		*c = CTimes{}
	}
	(*c)[at] = append(list, now.Ctime)
}

// Before returns the ctime that a directory had before nsrun changed its mode.
func (c CTimes) Before(at store.Place, ctime int64) int64 {
	if list := c[at]; slices.Contains(list, ctime) {
		return list[0]
	}
	return ctime
}

// Doors opens directories of the project to change their entries.
type Doors struct {
	s       *Log
	low     []*tree.Handle // the roots; borrowed
	widened map[store.Place]widened
	noted   int
	hold    bool // the book stays until unhold
	CTimes  CTimes

	last     *tree.Handle // the directory that was opened last
	lastAt   store.Place
	lastStat tree.Stat
}

// widened is the mode that Relock gives a directory.
type widened struct {
	ino  uint64
	mode uint32
}

// open returns a directory of the project in which entries can be looked up and changed. It
// belongs to d, and is valid until the next call.
func (d *Doors) open(at store.Place) (*tree.Handle, error) {
	if d.last != nil && d.lastAt == at {
		return d.last, nil
	}
	d.last.Close()
	d.last = nil
	h, err := d.openOne(at, 0o300)
	if err == unix.EACCES && !tree.IsRoot() {
		// The caller may own a directory above and have no access to it.
		for i := range len(at.Path) {
			path := at.Path[:i]
			if i == 0 {
				path = "."
			} else if at.Path[i] != '/' {
				continue
			}
			above, err := d.openOne(store.Place{Root: at.Root, Path: path}, 0o100)
			if err != nil {
				return nil, err
			}
			above.Close()
		}
		h, err = d.openOne(at, 0o300)
	}
	if err != nil {
		return nil, err
	}
	d.last, d.lastAt = h, at
	return h, nil
}

// openOne opens a directory, and makes sure that its owner has the permissions need until Relock.
func (d *Doors) openOne(at store.Place, need uint32) (*tree.Handle, error) {
	h, err := d.low[at.Root].Open(at.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	if d.lastStat, err = h.Stat(); err == nil && !tree.IsRoot() {
		err = d.widen(at, h, d.lastStat, need)
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (d *Doors) widen(at store.Place, h *tree.Handle, st tree.Stat, need uint32) error {
	if !st.Owned() || st.Perm()&need == need {
		return nil
	}
	if _, ok := d.widened[at]; !ok {
		e := store.BookEntry{Root: at.Root, Path: store.Text(at.Path), Ino: st.Ino, Mode: st.Perm(), GID: st.GID, Mtime: st.Mtime.Nano(), Ctime: st.Ctime}
		if err := d.s.Book.Note(e); err != nil {
			return err
		}
		d.noted++
		if d.widened == nil {
			d.widened = map[store.Place]widened{}
		}
		d.widened[at] = widened{st.Ino, st.Perm()}
	}
	before, err := h.Stat() // again, because Note took some time
	if err != nil {
		return err
	}
	if err := h.Chmod(st.Perm() | 0o700); err != nil {
		return err
	}
	d.CTimes.Follow(at, before, h)
	return nil
}

// setMode sets the mode of the directory h: at once or, if the caller would lose access, in Relock.
func (d *Doors) setMode(at store.Place, h *tree.Handle, st tree.Stat, mode uint32) error {
	if mode&0o700 != 0o700 && !tree.IsRoot() && st.Owned() {
		// Directories below it may still have to be closed.
		if d.widened == nil {
			d.widened = map[store.Place]widened{}
		}
		d.widened[at] = widened{st.Ino, mode}
		return nil
	}
	delete(d.widened, at)
	return h.Chmod(mode)
}

// Relock sets the modes of directories that were opened, the innermost first, and closes what open returned.
func (d *Doors) Relock() error {
	d.last.Close()
	d.last = nil
	list := slices.SortedFunc(maps.Keys(d.widened), func(a, b store.Place) int { return paths.Compare(b.Path, a.Path) })
	var errs []error
	for _, at := range list {
		w := d.widened[at]
		if err := restoreMode(d.low[at.Root], at.Path, w.ino, w.mode, func(h *tree.Handle, before tree.Stat) { d.CTimes.Follow(at, before, h) }); err != nil && err != unix.ENOENT && !tree.Swapped(err) {
			errs = append(errs, &fs.PathError{Op: "restore mode of", Path: filepath.Join(d.s.Roots[at.Root], at.Path), Err: err})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // the book stays
	}
	clear(d.widened)
	if !d.hold {
		d.unhold()
	}
	return nil
}

// unhold drops the entries of directories that were closed again.
func (d *Doors) unhold() {
	d.hold = false
	if len(d.widened) == 0 {
		d.s.Book.Unnote(d.noted)
		d.noted = 0
	}
}

// CloseDoors restores the modes in the book, last entries first, because the first entry for
// an object has its true mode.
func (s *Log) CloseDoors() error {
	s.owed = nil // this recovery tries it again
	data, err := s.Dir.ReadFile(store.BookName, store.MetaMost)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	var list []store.BookEntry
	for line := range bytes.Lines(data) {
		var e store.BookEntry
		// A line that is cut off belongs to a change that was never made.
		if store.StrictJSON(line, &e) != nil || store.CheckPlace(e.Root, string(e.Path), len(s.Roots)) != nil {
			continue
		}
		list = append(list, e)
	}
	var errs []error
	for i, e := range slices.Backward(list) {
		err := s.restore(e, list[:i])
		if err != nil && err != unix.ENOENT && !tree.Swapped(err) {
			top := s.Roots[e.Root]
			if e.Own {
				top = s.Path
			}
			errs = append(errs, &fs.PathError{Op: "restore mode of", Path: filepath.Join(top, string(e.Path)), Err: err})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := s.noteClosed(list); err != nil {
		s.owed = err // the book stays
		return nil
	}
	return s.Dir.Unlink(store.BookName, 0)
}

// restore restores the mode of an entry; before are the entries before it. If a directory above it has its own mode
// again, that may keep the caller out: the entries before have it, too, and are restored later.
func (s *Log) restore(e store.BookEntry, before []store.BookEntry) error {
	var top *tree.Handle
	var err error
	switch {
	case e.Own:
		top, err = s.Dir.Open(".", unix.O_PATH|unix.O_DIRECTORY)
	case e.Upper:
		top, err = s.Dir.Open(store.UpperName(e.Root), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	default:
		top, err = tree.OpenAbs(s.Roots[e.Root], unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return err
	}
	defer top.Close()
	if err = restoreMode(top, string(e.Path), e.Ino, e.Mode, nil); err != unix.EACCES {
		return err
	}
	for _, above := range before {
		if above.Own == e.Own && above.Upper == e.Upper && above.Root == e.Root && above.Path != e.Path && tree.Under(string(e.Path), string(above.Path)) {
			err := restoreMode(top, string(above.Path), above.Ino, above.Mode|0o700, nil)
			if err != nil && err != unix.ENOENT && !tree.Swapped(err) {
				return err
			}
		}
	}
	return restoreMode(top, string(e.Path), e.Ino, e.Mode, nil)
}

// noteClosed notes the ctimes of directories that were only opened and closed. Without that, the next commit would take
// them for changed by somebody else.
func (s *Log) noteClosed(list []store.BookEntry) error {
	m := *s.Meta()
	var l Ledger
	l.Load(&m)
	noted := false
	for _, e := range list {
		if e.Upper || e.Own || e.Ctime == 0 {
			continue
		}
		at := store.Place{Root: e.Root, Path: string(e.Path)}
		now, err := s.stat(at)
		if err != nil || now.Ino != e.Ino || now.GID != e.GID || now.Mtime.Nano() != e.Mtime {
			continue
		}
		if l.follow(at, []int64{e.Ctime}, now.Ctime, m.Began()) {
			noted = true
		}
	}
	if !noted {
		return nil
	}
	l.Save(&m)
	if err := s.SetMeta(&m, new(tree.Flusher)); err != nil {
		return &fs.PathError{Op: "write session's data", Path: s.Path, Err: err}
	}
	return nil
}

// stat looks at a directory of a project.
func (s *Log) stat(at store.Place) (tree.Stat, error) {
	top, err := tree.OpenAbs(s.Roots[at.Root], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return tree.Stat{}, err
	}
	defer top.Close()
	var o store.Opener
	defer o.Close()
	h, err := top.With(&o).Open(at.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return tree.Stat{}, err
	}
	defer h.Close()
	return h.Stat()
}
