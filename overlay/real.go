//go:build linux

package overlay

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A realTree is a side of a root that is a directory of a file system: a project, or
// an upper directory with overlayfs' marks in it.
type realTree struct {
	h *handle // the top, O_PATH

	// upper says that marks mean something: whiteouts and opaque directories.
	upper bool

	// unlock allows to make accessible, for as long as it is needed, what its owner
	// (us) cannot read: the sandboxed command may have closed its own files.
	unlock bool

	// book is called before the mode of the object at path, relative to the top, is
	// changed for a while: mode is what it has and will have again. An error stops
	// that. Nil: nobody keeps books.
	book func(path string, ino uint64, mode uint32) error

	// unbook is called when n of these objects have their modes again. Nil as book.
	unbook func(n int)

	// changed is called when a directory got another mode for a while, or its own one
	// again, with what it was like before. Nil: nobody wants to know.
	changed func(path string, before stat, h *handle)
}

func (t *realTree) close() { t.h.close() }

func (t *realTree) top() (dir, error) { return t.at(".") }

func (t *realTree) at(path string) (dir, error) {
	d := t.newDir(path)
	var err error
	if d.h, err = t.open(path); err == nil {
		d.st, err = d.h.stat()
	}
	if t.unlock && !isRoot() && (err == unix.EACCES || err == nil && d.st.owned() && d.st.perm()&0o500 != 0o500) {
		d.h.close()
		return t.unlockTo(path)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	if t.unlock && d.st.closed() {
		d.close() // it can be listed, but nothing in it be looked at
		return t.unlockTo(path)
	}
	return d, nil
}

// closed reports whether a directory is closed to us, who own it.
func (s stat) closed() bool {
	const need = 0o500
	return s.perm()&need != need && s.owned() && !isRoot()
}

// open opens the directory path; one of a project that may not be listed, for looking
// names up in it.
func (t *realTree) open(path string) (*handle, error) { return t.openIn(t.h, path) }

func (t *realTree) openIn(at *handle, path string) (*handle, error) {
	if t.upper || t.unlock {
		return at.openDir(path)
	}
	return at.openDirOrPath(path)
}

// unlockTo opens a directory step by step: each one on the way may have to be unlocked.
func (t *realTree) unlockTo(path string) (dir, error) {
	st, err := t.h.stat()
	if err != nil {
		return nil, err
	}
	var d dir
	if d, err = t.enter(t.h, ".", ".", st); err != nil {
		return nil, err
	}
	return descend(d, path)
}

// enter opens the directory name, which is path from the top and as want says.
func (t *realTree) enter(at *handle, name, path string, want stat) (_ dir, err error) {
	d := t.newDir(path)
	d.st = want
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if t.unlock && want.closed() {
		if err := d.widen(at, name); err != nil {
			return nil, err
		}
	}
	if d.h, err = t.openIn(at, name); err != nil {
		if swapped(err) {
			err = errMoved
		}
		return nil, err
	}
	if got, err := d.h.stat(); err != nil || got.ino != want.ino || got.dev != want.dev {
		return nil, orMoved(err)
	}
	return d, nil
}

// tell books that the mode of an object is to be changed for a while.
func (t *realTree) tell(path string, st stat) error {
	if t.book == nil {
		return nil
	}
	return t.book(path, st.ino, st.perm())
}

// A realDir is a directory of a realTree.
type realDir struct {
	t      *realTree
	path   string
	h      *handle                // nil while parked
	st     stat                   // when it was opened
	relock bool                   // the mode was widened until close
	mark   func() (string, error) // overlayfs' mark, see readMark; upper only
}

func (t *realTree) newDir(path string) *realDir {
	d := &realDir{t: t, path: path}
	if t.upper {
		d.mark = sync.OnceValues(d.readMark)
	}
	return d
}

// widen makes the directory accessible to its owner until it is closed.
func (d *realDir) widen(at *handle, name string) error {
	p, err := at.open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer p.close()
	if got, err := p.stat(); err != nil || got.ino != d.st.ino || got.dev != d.st.dev {
		return orMoved(err)
	}
	if err := d.t.tell(d.path, d.st); err != nil {
		return err
	}
	before, err := p.stat() // to tell took its time
	if err != nil {
		return err
	}
	if err := p.chmod(d.st.perm() | 0o700); err != nil {
		return err
	}
	d.relock = true
	if d.t.changed != nil {
		d.t.changed(d.path, before, p)
	}
	return nil
}

func (d *realDir) close() {
	if d.relock {
		h := d.h
		if h == nil {
			h, _ = d.t.h.open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
		if h != nil {
			st, err := h.stat()
			if err == nil && st.ino == d.st.ino && st.dev == d.st.dev {
				err = h.chmod(d.st.perm())
				if err == nil && d.t.changed != nil {
					d.t.changed(d.path, st, h)
				}
			}
			if err == nil && d.t.unbook != nil {
				d.t.unbook(1)
			}
			if d.h == nil {
				h.close()
			}
		}
		d.relock = false
	}
	d.park()
}

func (d *realDir) park() {
	d.h.close()
	d.h = nil
}

func (d *realDir) wake() error {
	if d.h != nil {
		return nil
	}
	h, err := d.t.open(d.path)
	if err != nil {
		return err
	}
	if st, err := h.stat(); err != nil || st.ino != d.st.ino || st.dev != d.st.dev {
		h.close()
		return orMoved(err)
	}
	d.h = h
	return nil
}

func (d *realDir) stat() (stat, error) {
	st, err := d.h.stat()
	if d.relock {
		st.mode = st.typ() | d.st.perm()
	}
	return st, err
}

func (d *realDir) names() ([]string, error) {
	names, err := d.h.names()
	if err == unix.EBADF { // it could only be opened for looking names up
		err = unix.EACCES
	}
	return names, err
}

func (d *realDir) lstat(name string) (stat, bool, error) {
	st, found, err := d.h.lstatIf(name)
	if !found || err != nil || !d.t.upper || !st.isReg() || st.size != 0 {
		return st, found, err
	}
	// A whiteout can also be an empty file with an attribute, in a directory that
	// says so.
	mark, err := d.mark()
	if err != nil || mark != "x" {
		return st, err == nil, err
	}
	f, err := d.open(name, st)
	if err != nil {
		return stat{}, false, err
	}
	defer f.close()
	_, white, err := f.getXattr(overlayPrefix + "whiteout")
	if white {
		st.mode, st.rdev = unix.S_IFCHR|st.perm(), 0
	}
	return st, err == nil, err
}

// readMark returns the mark that overlayfs put on the directory: "y" if it is opaque,
// "x" if whiteouts in it may be files with an attribute, and empty for none.
func (d *realDir) readMark() (string, error) {
	mark, _, err := d.h.getXattr(overlayPrefix + "opaque")
	return mark, err
}

func (d *realDir) opaque() (bool, error) {
	if !d.t.upper {
		return false, nil
	}
	mark, err := d.mark()
	return mark == "y", err
}

func (d *realDir) origin() (bool, error) {
	if !d.t.upper {
		return false, nil
	}
	_, ok, err := d.h.getXattr(overlayPrefix + "origin")
	return ok, err
}

func (d *realDir) dir(name string, want stat) (dir, error) {
	return d.t.enter(d.h, name, joinPath(d.path, name), want)
}

// open opens a regular file for reading.
func (d *realDir) open(name string, want stat) (*handle, error) {
	if !d.t.unlock {
		return d.h.openFile(name, want, nil)
	}
	told := false
	f, err := d.h.openFile(name, want, func(st stat) error {
		told = true
		return d.t.tell(joinPath(d.path, name), st)
	})
	if told && err == nil && d.t.unbook != nil {
		d.t.unbook(1)
	}
	return f, err
}

func (d *realDir) file(name string, want stat) (*file, error) {
	h, err := d.open(name, want)
	if err != nil {
		return nil, err
	}
	return &file{handle: h, st: want}, nil
}

func (d *realDir) link(name string, want stat) (string, error) { return readlinkOf(d.h, name, want) }

func (d *realDir) traits(name string, want stat) (traits, error) {
	if want.isDir() || want.typ() == unix.S_IFLNK {
		return traits{}, nil
	}
	names, err := d.h.xattrNamesOf(name)
	if err != nil || len(names) == 0 {
		return traits{}, err
	}
	t, err := traitsOf(names)
	if err == nil && t.project && !want.isReg() {
		t.lists, err = d.listsOf(name, want, names)
	}
	return t, err
}

// listsOf reads the access control lists of an object that is not to be opened.
func (d *realDir) listsOf(name string, want stat, names []string) (xattrs, error) {
	h, err := d.h.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer h.close()
	if st, err := h.stat(); err != nil || st.ino != want.ino || st.typ() != want.typ() {
		return nil, orMoved(err)
	}
	lists := xattrs{}
	for _, name := range names {
		if !wantedXattr(name) {
			continue
		}
		buf := make([]byte, 64<<10)
		n, err := unix.Getxattr(h.procPath(), name, buf)
		if err != nil {
			return nil, err
		}
		lists[name] = string(buf[:n])
	}
	return lists, nil
}

func (d *realDir) xattrs() (xattrs, error) {
	x, err := d.h.xattrs()
	if d.relock {
		x.setOwner(d.st.perm())
	}
	return x, err
}
