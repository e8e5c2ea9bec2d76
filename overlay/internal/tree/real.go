//go:build linux

package tree

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A Real is a side of a root that is a directory of a file system: a project, or
// an upper directory with the marks of overlayfs.
type Real struct {
	H *Handle // the top, O_PATH

	// Upper says that there may be marks: whiteouts and opaque directories.
	Upper bool

	// Unlock makes files and directories of the caller accessible while they are read, because the sandboxed command
	// may have removed its own access. It leaves alone what the opener of H can open.
	Unlock bool

	// Book is called before the mode of the object at path, relative to the top, is changed for a while; mode is
	// its own mode. After an error, nothing is changed. Nil: it is not called.
	Book func(path string, ino uint64, mode uint32) error

	// Unbook is called when the modes of n of these objects were restored. Nil: it is not called.
	Unbook func(n int)

	// Changed is called after the mode of a directory was changed or restored, with the
	// state before that. Nil: it is not called.
	Changed func(path string, before Stat, h *Handle)
}

func (t *Real) Close() {
	if t.H != nil && t.H.opener != nil {
		t.H.opener.Close()
	}
	t.H.Close()
}

func (t *Real) Top() (Dir, error) { return t.At(".") }

func (t *Real) At(path string) (Dir, error) {
	d := t.newDir(path)
	var err error
	if d.h, err = t.Open(path); err == nil {
		d.st, err = d.h.Stat()
	}
	if t.Unlock && (err == unix.EACCES && !IsRoot() || err == nil && t.shut(d.st)) {
		d.Close() // perhaps it can be listed, but the names in it cannot be looked up
		return t.unlockTo(path)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// closed reports whether the caller owns a directory, but has no access to it.
func (s Stat) closed() bool {
	const need = 0o500
	return s.Perm()&need != need && s.Owned() && !IsRoot()
}

// shut reports whether a directory has to be made accessible.
func (t *Real) shut(s Stat) bool { return s.closed() && !t.H.opens(s) }

// Open opens the directory path. If it is one of a project and may not be listed, it is opened for lookups.
func (t *Real) Open(path string) (*Handle, error) { return t.openIn(t.H, path) }

func (t *Real) openIn(at *Handle, path string) (*Handle, error) {
	if t.Upper || t.Unlock {
		return at.OpenDir(path)
	}
	return at.OpenDirOrPath(path)
}

// unlockTo opens a directory step by step, because each one on the way may have to be unlocked.
func (t *Real) unlockTo(path string) (Dir, error) {
	st, err := t.H.Stat()
	if err != nil {
		return nil, err
	}
	var d Dir
	if d, err = t.enter(t.H, ".", ".", st); err != nil {
		return nil, err
	}
	return descend(d, path)
}

// enter opens the directory name, which is at path and which want describes.
func (t *Real) enter(at *Handle, name, path string, want Stat) (_ Dir, err error) {
	d := t.newDir(path)
	d.st = want
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if t.Unlock && t.shut(want) {
		if err := d.widen(at, name); err != nil {
			return nil, err
		}
	}
	if d.h, err = t.openIn(at, name); err != nil {
		if Swapped(err) {
			err = ErrMoved
		}
		return nil, err
	}
	if got, err := d.h.Stat(); err != nil || got.Ino != want.Ino || got.Dev != want.Dev {
		return nil, OrMoved(err)
	}
	return d, nil
}

// tell calls Book for an object whose mode is about to be changed.
func (t *Real) tell(path string, st Stat) error {
	if t.Book == nil {
		return nil
	}
	return t.Book(path, st.Ino, st.Perm())
}

type realDir struct {
	t      *Real
	path   string
	h      *Handle // nil while parked
	st     Stat    // when it was opened
	relock bool    // Close restores the mode

	// Only with Upper; each is read once:
	mark  func() (string, error)   // the mark of overlayfs, see readMark
	names func() ([]string, error) // of all its attributes
}

func (t *Real) newDir(path string) *realDir {
	d := &realDir{t: t, path: path}
	if t.Upper {
		d.mark = sync.OnceValues(d.readMark)
		d.names = sync.OnceValues(func() ([]string, error) { return d.h.XattrNames() })
	}
	return d
}

// widen makes the directory accessible to its owner until it is closed.
func (d *realDir) widen(at *Handle, name string) error {
	p, err := at.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer p.Close()
	if got, err := p.Stat(); err != nil || got.Ino != d.st.Ino || got.Dev != d.st.Dev {
		return OrMoved(err)
	}
	if err := d.t.tell(d.path, d.st); err != nil {
		return err
	}
	before, err := p.Stat() // again, because Book took some time
	if err != nil {
		return err
	}
	if err := p.Chmod(d.st.Perm() | 0o700); err != nil {
		return err
	}
	d.relock = true
	if d.t.Changed != nil {
		d.t.Changed(d.path, before, p)
	}
	return nil
}

func (d *realDir) Close() {
	if d.relock {
		h := d.h
		if h == nil {
			h, _ = d.t.H.Open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
		if h != nil {
			st, err := h.Stat()
			if err == nil && st.Ino == d.st.Ino && st.Dev == d.st.Dev {
				err = h.Chmod(d.st.Perm())
				if err == nil && d.t.Changed != nil {
					d.t.Changed(d.path, st, h)
				}
			}
			if err == nil && d.t.Unbook != nil {
				d.t.Unbook(1)
			}
			if d.h == nil {
				h.Close()
			}
		}
		d.relock = false
	}
	d.park()
}

func (d *realDir) park() {
	d.h.Close()
	d.h = nil
}

func (d *realDir) wake() error {
	if d.h != nil {
		return nil
	}
	h, err := d.t.Open(d.path)
	if err != nil {
		return err
	}
	if st, err := h.Stat(); err != nil || st.Ino != d.st.Ino || st.Dev != d.st.Dev {
		h.Close()
		return OrMoved(err)
	}
	d.h = h
	return nil
}

func (d *realDir) Stat() (Stat, error) {
	st, err := d.h.Stat()
	if d.relock {
		st.Mode = st.Typ() | d.st.Perm()
	}
	return st, err
}

func (d *realDir) Names() ([]string, error) {
	names, err := d.h.Names()
	if err == unix.EBADF { // it was opened for lookups only
		err = unix.EACCES
	}
	return names, err
}

func (d *realDir) Lstat(name string) (Stat, bool, error) {
	st, found, err := d.h.LstatIf(name)
	if !found || err != nil || !d.t.Upper || !st.IsReg() || st.Size != 0 {
		return st, found, err
	}
	// A whiteout can also be an empty file with an attribute, if its directory has a mark for that.
	mark, err := d.mark()
	if err != nil || mark != "x" {
		return st, err == nil, err
	}
	f, err := d.Open(name, st)
	if err != nil {
		return Stat{}, false, err
	}
	defer f.Close()
	_, white, err := f.GetXattr(OverlayPrefix + "whiteout")
	if white {
		st.Mode, st.Rdev = unix.S_IFCHR|st.Perm(), 0
	}
	return st, err == nil, err
}

// readMark returns the mark that overlayfs put on the directory: "y" if it is opaque,
// "x" if whiteouts in it may be files with an attribute, and empty for none. Most directories
// have another attribute of overlayfs; then the list of names, which is needed later, says enough.
func (d *realDir) readMark() (string, error) {
	names, err := d.names()
	if err == nil && len(names) > 0 && !slices.Contains(names, OverlayPrefix+"opaque") {
		return "", nil
	}
	mark, _, err := d.h.GetXattr(OverlayPrefix + "opaque")
	return mark, err
}

func (d *realDir) opaque() (bool, error) {
	if !d.t.Upper {
		return false, nil
	}
	mark, err := d.mark()
	return mark == "y", err
}

func (d *realDir) Origin() (bool, error) {
	if !d.t.Upper {
		return false, nil
	}
	_, ok, err := d.h.GetXattr(OverlayPrefix + "origin")
	return ok, err
}

func (d *realDir) Dir(name string, want Stat) (Dir, error) {
	return d.t.enter(d.h, name, JoinPath(d.path, name), want)
}

// Open opens a regular file for reading.
func (d *realDir) Open(name string, want Stat) (*Handle, error) {
	if !d.t.Unlock {
		return d.h.openFile(name, want, nil)
	}
	told := false
	f, err := d.h.openFile(name, want, func(st Stat) error {
		told = true
		return d.t.tell(JoinPath(d.path, name), st)
	})
	if told && err == nil && d.t.Unbook != nil {
		d.t.Unbook(1)
	}
	return f, err
}

func (d *realDir) File(name string, want Stat) (*File, error) {
	h, err := d.Open(name, want)
	if err != nil {
		return nil, err
	}
	return &File{Handle: h, st: want}, nil
}

func (d *realDir) Link(name string, want Stat) (string, error) { return readlinkOf(d.h, name, want) }

func (d *realDir) Traits(name string, want Stat) (Traits, error) {
	if want.IsDir() || want.Typ() == unix.S_IFLNK {
		return Traits{}, nil
	}
	names, err := d.h.xattrNamesOf(name)
	if err != nil || len(names) == 0 {
		return Traits{}, err
	}
	t, err := traitsOf(names)
	if err == nil && t.Project && !want.IsReg() {
		t.Lists, err = d.listsOf(name, want, names)
	}
	return t, err
}

// listsOf reads the access control lists of an object that must not be opened.
func (d *realDir) listsOf(name string, want Stat, names []string) (Xattrs, error) {
	h, err := d.h.Open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if st, err := h.Stat(); err != nil || st.Ino != want.Ino || st.Typ() != want.Typ() {
		return nil, OrMoved(err)
	}
	lists := Xattrs{}
	for _, name := range names {
		if !WantedXattr(name) {
			continue
		}
		buf := make([]byte, 64<<10)
		n, err := unix.Getxattr(h.ProcPath(), name, buf)
		if err != nil {
			return nil, err
		}
		lists[name] = string(buf[:n])
	}
	return lists, nil
}

func (d *realDir) Xattrs() (Xattrs, error) {
	list := d.h.XattrNames
	if d.names != nil {
		list = d.names
	}
	names, err := list()
	if err != nil {
		return nil, err
	}
	x, err := d.h.xattrs(names)
	if d.relock {
		x.SetOwner(d.st.Perm())
	}
	return x, err
}
