package overlay

import (
	"iter"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// maxPath bounds the paths that are looked at, in bytes: a little less than
	// the kernel takes, to leave room for a temporary name.
	maxPath = 4096 - 128

	// maxHeld bounds how many levels of directories a walk holds open; those
	// above are opened again when it comes back to them.
	maxHeld = 48
)

// A node is a Change with what was found on both sides.
type node struct {
	Change
	root    int
	up, low stat
	hasUp   bool // false for Deleted
	hasLow  bool // false for Added
}

// Changes yields what differs between the session and the project now: root
// after root, within a root in path order, where a directory comes before what
// is in it and names are compared by their bytes. A deleted directory is one
// Change; a new one is a Change, and so is everything in it.
//
// What cannot be looked at is yielded as an error, with a zero Change; the walk
// goes on behind it.
func (s *Session) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for n, err := range s.nodes(nil) {
			if !yield(n.Change, err) {
				return
			}
		}
	}
}

// An inode tells hard links apart from copies.
type inode struct{ dev, ino uint64 }

// A twin is a name whose object in the session is equal to the project's, and
// has other names in the session.
type twin struct {
	path string
	low  stat
}

// nodes walks all roots. Where twins is not nil it is filled, per root.
func (s *Session) nodes(twins []map[inode]twin) iter.Seq2[node, error] {
	return func(yield func(node, error) bool) {
		for i := range s.roots {
			w := walker{index: i, root: s.roots[i].Path, unlock: !s.readOnly, yield: yield}
			if twins != nil {
				w.twins = twins[i]
			}
			if err := s.openLayers(&w); err != nil {
				if !yield(node{}, err) {
					return
				}
				continue
			}
			ok := w.run()
			w.up.close()
			w.low.close()
			if !ok {
				return
			}
		}
	}
}

// openLayers gives w its own descriptors, so that a walk can go on while the
// session is used or closed.
func (s *Session) openLayers(w *walker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const op = "open session"
	if err := s.usable(op, false); err != nil {
		return err
	}
	low, err := s.root(w.index)
	if err != nil {
		return err
	}
	if w.low, err = low.open(".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return &Error{Op: op, Path: w.root, Err: err}
	}
	if w.up, err = s.dir.open(upperName(w.index), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
		w.low.close()
		return &Error{Op: op, Path: s.roots[w.index].Upper, Err: err}
	}
	w.base = s.meta.Roots[w.index]
	for _, st := range s.meta.Settled {
		if st.Root == w.index && st.Done {
			if w.settled == nil {
				w.settled = map[string]settled{}
			}
			w.settled[string(st.Path)] = st
		}
	}
	return nil
}

// A walker compares one root's upper directory with the project.
type walker struct {
	index   int
	root    string // for messages
	up, low *handle
	base    metaRoot
	settled map[string]settled // by path, those that were committed
	unlock  bool               // unreadable objects of the upper directory may be unlocked
	twins   map[inode]twin     // nil: not wanted
	yield   func(node, error) bool
}

// A frame is one directory of the upper layer during a walk.
type frame struct {
	path    string // relative to the root
	depth   int
	up, low *handle // low is nil where the project has no directory; nil while parked
	upIno   uint64
	lowIno  uint64
	hasLow  bool
	opaque  bool // what is below it in the project was not visible
	marks   bool // files with an attribute may be whiteouts
	relock  bool // the mode was widened for the walk
	mode    uint32
}

// fail yields an error and reports whether the walk is to go on.
func (w *walker) fail(op, path string, err error) bool {
	if len(path) > 256 {
		path = path[:256] + "…"
	}
	return w.yield(node{}, &Error{Op: op, Path: filepath.Join(w.root, path), Err: err})
}

// run walks the root; it returns false when the consumer has had enough.
func (w *walker) run() bool {
	f := &frame{path: ".", hasLow: true}
	st, err := w.up.stat()
	if err != nil {
		return w.fail("look at", ".", err)
	}
	low, err := w.low.stat()
	if err != nil {
		return w.fail("look at", ".", err)
	}
	// The root's mode and owner are compared with those the upper directory was
	// made with: the owner may have been out of the caller's power.
	b := w.base
	if st.perm() != b.Mode || st.uid != b.UID || st.gid != b.GID {
		n := node{root: w.index, up: st, low: low, hasUp: true, hasLow: true}
		if !w.emit(n, Modified, ".") {
			return false
		}
	}
	if ok, more := w.enter(f, w.up, ".", st, w.low); !ok {
		return more
	}
	defer w.leave(f)
	return w.list(f)
}

// emit yields one change.
func (w *walker) emit(n node, kind Kind, path string) bool {
	st := n.up
	if kind == Deleted {
		st = n.low
	}
	n.Change = Change{Kind: kind, Root: w.root, Path: path, Mode: st.fileMode()}
	if st.isReg() {
		n.Size = st.size
	}
	if n.hasLow {
		n.OldMode = n.low.fileMode()
		if n.low.isReg() {
			n.OldSize = n.low.size
		}
	}
	return w.yield(n, nil)
}

// enter opens the directory name of the upper directory at, and that of the
// project if low, the directory that holds it, is not nil. It returns false
// where that failed, and then whether the walk is to go on.
func (w *walker) enter(f *frame, at *handle, name string, st stat, low *handle) (ok, more bool) {
	f.upIno = st.ino
	var err error
	const need = 0o500
	if w.unlock && st.perm()&need != need && st.owned() && !isRoot() {
		// The sandboxed command made its own directory unreadable. It stays
		// readable for as long as we are in it.
		if err = w.widen(f, at, name, st); err != nil {
			return false, w.fail("open", f.path, err)
		}
	}
	if f.up, err = at.openDir(name); err != nil {
		if err == unix.ENOENT { // it is gone; the command is still running
			return false, true
		}
		w.leave(f)
		return false, w.fail("open", f.path, err)
	}
	if got, err := f.up.stat(); err != nil || got.ino != st.ino || got.dev != st.dev {
		w.leave(f)
		return false, w.fail("open", f.path, orMoved(err))
	}
	mark, _, err := f.up.getXattr(overlayPrefix + "opaque")
	if err != nil {
		w.leave(f)
		return false, w.fail("read attributes", f.path, err)
	}
	// "x" does not hide the project's directory: it says that whiteouts may be
	// files with an attribute.
	f.opaque = f.opaque || mark == "y"
	f.marks = mark == "x"
	if f.hasLow {
		if f.low, err = openLowerDir(low, name); err != nil {
			w.leave(f)
			return false, w.fail("open", f.path, err)
		}
		lst, err := f.low.stat()
		if err != nil {
			w.leave(f)
			return false, w.fail("look at", f.path, err)
		}
		f.lowIno = lst.ino
	}
	return true, true
}

// openLowerDir opens a directory of the project for listing, or if that is
// not allowed, for looking names up in it.
func openLowerDir(at *handle, name string) (*handle, error) {
	d, err := at.openDir(name)
	if err == unix.EACCES {
		d, err = at.open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	}
	return d, err
}

func (w *walker) widen(f *frame, at *handle, name string, st stat) error {
	p, err := at.open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer p.close()
	if got, err := p.stat(); err != nil || got.ino != st.ino || got.dev != st.dev {
		return orMoved(err)
	}
	if err := p.chmod(st.perm() | 0o700); err != nil {
		return err
	}
	f.relock, f.mode = true, st.perm()
	return nil
}

// leave undoes enter. It must find the directory open, to set its mode back.
func (w *walker) leave(f *frame) {
	if f.relock {
		up := f.up
		if up == nil {
			up, _ = w.up.open(f.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		}
		if up != nil {
			if st, err := up.stat(); err == nil && st.ino == f.upIno {
				_ = up.chmod(f.mode)
			}
			up.close()
		}
		f.relock = false
	}
	f.up.close()
	f.low.close()
	f.up, f.low = nil, nil
}

// park gives up the descriptors of f for as long as the walk is far below it.
func (w *walker) park(f *frame) {
	f.up.close()
	f.low.close()
	f.up, f.low = nil, nil
}

// wake opens what park closed, if it is what it was.
func (w *walker) wake(f *frame) (err error) {
	reopen := func(top *handle, ino uint64) (*handle, error) {
		d, err := openLowerDir(top, f.path)
		if err != nil {
			return nil, err
		}
		if st, err := d.stat(); err != nil || st.ino != ino {
			d.close()
			return nil, orMoved(err)
		}
		return d, nil
	}
	if f.up, err = reopen(w.up, f.upIno); err != nil {
		return err
	}
	if f.hasLow {
		f.low, err = reopen(w.low, f.lowIno)
	}
	return err
}

// list yields the changes in the directory f.
func (w *walker) list(f *frame) bool {
	names, err := f.up.names()
	if err != nil {
		return w.fail("list", f.path, err)
	}
	if f.opaque && f.low != nil {
		low, err := f.low.names()
		if err == unix.EBADF { // it could only be opened for looking names up
			err = unix.EACCES
		}
		if err != nil {
			if !w.fail("list", f.path, err) {
				return false
			}
		}
		names = append(names, low...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if f.up == nil {
			if err := w.wake(f); err != nil {
				return w.fail("open", f.path, err)
			}
		}
		if !w.entry(f, name) {
			return false
		}
	}
	return true
}

// entry yields the changes at and below one name of the directory f.
func (w *walker) entry(f *frame, name string) bool {
	path := joinPath(f.path, name)
	if len(path) > maxPath {
		return w.fail("look at", path, unix.ENAMETOOLONG)
	}
	n := node{root: w.index}
	var err error
	if n.up, n.hasUp, err = f.up.lstatIf(name); err != nil {
		return w.fail("look at", path, err)
	}
	if !n.hasUp && !f.opaque {
		return true // it is gone; the command is still running
	}
	if n.hasUp {
		white := n.up.isWhiteout()
		if !white && f.marks && n.up.isReg() && n.up.size == 0 {
			if white, err = w.marked(f, name, n.up); err != nil {
				return w.fail("read attributes", path, err)
			}
		}
		n.hasUp = !white
	}
	if st, ok := w.settled[path]; ok && n.hasUp && !n.up.isDir() && st.Upper == n.up.ctime {
		return true
	}
	if f.low != nil {
		if n.low, n.hasLow, err = f.low.lstatIf(name); err != nil {
			return w.fail("look at", path, err)
		}
	}
	if !n.hasUp {
		if st, ok := w.settled[path]; !n.hasLow || ok && st.Upper == 0 {
			return true
		}
		return w.emit(n, Deleted, path)
	}
	if n.up.isDir() {
		return w.directory(f, name, path, n)
	}
	switch {
	case !n.hasLow:
		return w.emit(n, Added, path)
	case n.up.typ() != n.low.typ():
		return w.emit(n, TypeChanged, path)
	}
	equal, err := w.equal(f, name, n.up, n.low)
	if err != nil {
		return w.fail("compare", path, err)
	}
	if !equal {
		return w.emit(n, Modified, path)
	}
	if w.twins != nil && n.up.isReg() && n.up.nlink > 1 {
		w.twins[inode{n.up.dev, n.up.ino}] = twin{path, n.low}
	}
	return true
}

// directory yields the change of a directory, if there is one, and those in it.
func (w *walker) directory(f *frame, name, path string, n node) bool {
	sub := &frame{path: path, depth: f.depth + 1, opaque: f.opaque, hasLow: n.hasLow && n.low.isDir()}
	ok, more := w.enter(sub, f.up, name, n.up, f.low)
	if !ok {
		// That it is there is known, even if what is in it is not.
		switch {
		case !more:
			return false
		case !n.hasLow:
			return w.emit(n, Added, path)
		case !n.low.isDir():
			return w.emit(n, TypeChanged, path)
		}
		return true
	}
	defer w.leave(sub)
	switch {
	case !n.hasLow:
		more = w.emit(n, Added, path)
	case !n.low.isDir():
		more = w.emit(n, TypeChanged, path)
	default:
		equal := sameAccess(n.up, n.low)
		if equal {
			var err error
			if equal, err = sameXattrs(sub.up, sub.low); err != nil {
				return w.fail("compare", path, err)
			}
		}
		if !equal {
			more = w.emit(n, Modified, path)
		}
	}
	if !more {
		return false
	}
	if f.depth >= maxHeld {
		w.park(f)
	}
	return w.list(sub)
}

// marked reports whether an empty file is a whiteout made of an attribute.
func (w *walker) marked(f *frame, name string, st stat) (bool, error) {
	h, err := f.up.openFile(name, st, w.unlock)
	if err != nil {
		return false, err
	}
	defer h.close()
	_, found, err := h.getXattr(overlayPrefix + "whiteout")
	return found, err
}

// sameAccess compares who may do what.
func sameAccess(a, b stat) bool {
	return a.perm() == b.perm() && a.uid == b.uid && a.gid == b.gid
}

func sameXattrs(a, b *handle) (bool, error) {
	x, err := a.xattrs()
	if err != nil {
		return false, err
	}
	y, err := b.xattrs()
	if err != nil {
		return false, err
	}
	if len(x) != len(y) {
		return false, nil
	}
	for name, v := range x {
		if w, ok := y[name]; !ok || v != w {
			return false, nil
		}
	}
	return true, nil
}

// equal compares two objects of one type, neither of them a directory.
func (w *walker) equal(f *frame, name string, up, low stat) (bool, error) {
	if !sameAccess(up, low) || up.size != low.size {
		return false, nil
	}
	switch up.typ() {
	case unix.S_IFREG:
		a, err := f.up.openFile(name, up, w.unlock)
		if err != nil {
			return false, err
		}
		defer a.close()
		b, err := f.low.openFile(name, low, false)
		if err == unix.EACCES {
			return false, nil // what cannot be read cannot be called equal
		}
		if err != nil {
			return false, err
		}
		defer b.close()
		if same, err := sameXattrs(a, b); err != nil || !same {
			return false, err
		}
		return sameData(a, b, up.size)
	case unix.S_IFLNK:
		a, err := f.up.readlinkAt(name)
		if err != nil {
			return false, err
		}
		b, err := f.low.readlinkAt(name)
		return a == b, err
	case unix.S_IFCHR, unix.S_IFBLK:
		return up.rdev == low.rdev, nil
	}
	return true, nil
}

// readlinkAt returns the text of the symbolic link name in the directory h.
func (h *handle) readlinkAt(name string) (string, error) {
	l, err := h.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer l.close()
	return l.readlink()
}
