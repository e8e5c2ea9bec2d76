//go:build linux

package tree

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Taken is an object of an upper directory that can be moved into a project.
type Taken struct {
	Path  string // relative to the top
	Stat  Stat
	Marks Xattrs // overlayfs' own, which it loses by that
}

// Takable visits an object of an upper directory and everything in it, in path order, until visit returns false. It
// reports whether all of it can be moved into a project instead of a copy: owner, attributes and names would be the
// same, and nobody else has one of the files open, so that its content cannot change later. It adds files and
// directories to flush; nil: the caller flushes the whole file system.
func (t *Real) Takable(path string, special bool, flush *Flusher, visit func(Taken) bool) (bool, error) {
	dir, name := SplitPath(path)
	w := taker{t: t, special: special, flush: flush, names: map[Inode]uint64{}, uid: os.Geteuid()}
	defer w.close()
	if err := w.enter(dir); err == unix.EACCES || err == nil && !w.may(w.st) {
		return false, nil // it is closed to us
	} else if err != nil {
		return false, err
	}
	st, err := w.dir.Lstat(name)
	if err != nil {
		return false, err
	}
	todo := []Found{{path, st}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		x, ok, err := w.look(at)
		if err != nil || !ok || !visit(x) {
			return false, err
		}
		if at.Stat.IsDir() {
			if todo, err = w.list(todo, at.Path); err != nil {
				return false, err
			}
		}
	}
	for _, missing := range w.names {
		if missing > 0 { // a name of a file is elsewhere
			return false, nil
		}
	}
	return true, nil
}

// A taker is one call of Takable.
type taker struct {
	t       *Real
	special bool
	flush   *Flusher
	names   map[Inode]uint64 // of a file with several names, how many were not visited yet
	uid     int
	groups  []int // that the caller may give files to; nil: not asked yet

	dir *Handle // the directory that was entered last
	at  string
	st  Stat
}

func (w *taker) close() { w.dir.Close() }

// enter opens a directory.
func (w *taker) enter(path string) (err error) {
	if w.dir != nil && w.at == path {
		return nil
	}
	w.dir.Close()
	if w.dir, err = w.t.H.OpenDir(path); err != nil {
		w.dir = nil
		return err
	}
	w.at = path
	w.st, err = w.dir.Stat()
	return err
}

// list appends the entries of a directory, the last name first. They include whiteouts, which cannot be moved.
func (w *taker) list(todo []Found, path string) ([]Found, error) {
	if err := w.enter(path); err != nil {
		return nil, err
	}
	names, err := w.dir.Names()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		st, err := w.dir.Lstat(name)
		if err != nil {
			return nil, err
		}
		todo = append(todo, Found{JoinPath(path, name), st})
	}
	return todo, nil
}

// groups returns the groups that the caller may give files to.
func groups() []int {
	list, _ := os.Getgroups()
	return append(list, os.Getegid())
}

// may reports whether the caller could have made an object with this owner and mode, and has the permissions to move
// it.
func (w *taker) may(st Stat) bool {
	need := uint32(0o600)
	switch st.Typ() {
	case unix.S_IFDIR:
		need = 0o700
	case unix.S_IFREG:
		if st.Perm()&(unix.S_ISUID|unix.S_ISGID) != 0 && !w.special {
			return false
		}
	case unix.S_IFLNK:
		need = 0
	default:
		return false
	}
	if w.uid == 0 {
		return true
	}
	if w.groups == nil {
		w.groups = groups()
	}
	return int(st.UID) == w.uid && slices.Contains(w.groups, int(st.GID)) && st.Perm()&need == need
}

// look looks at one object, and reports whether it can be moved.
func (w *taker) look(at Found) (x Taken, ok bool, err error) {
	x = Taken{Path: at.Path, Stat: at.Stat}
	dir, name := SplitPath(at.Path)
	if len(at.Path) > MaxPath || !w.may(at.Stat) {
		return x, false, nil
	}
	if err := w.enter(dir); err != nil {
		return x, false, err
	}
	if at.Stat.Typ() == unix.S_IFLNK {
		names, err := w.dir.xattrNamesOf(name)
		return x, at.Stat.Nlink == 1 && !slices.ContainsFunc(names, func(n string) bool { return n != labelXattr }), err
	}
	if !at.Stat.IsDir() && at.Stat.Nlink > 1 {
		id := Inode{at.Stat.Dev, at.Stat.Ino}
		left, met := w.names[id]
		if !met {
			left = at.Stat.Nlink
		}
		if w.names[id] = left - 1; met {
			return x, true, nil // it was checked under another name, and flush may have it open
		}
	}
	h, err := w.dir.openFile(name, at.Stat, nil)
	if err != nil {
		return x, false, err
	}
	defer func() { h.Close() }()
	if !at.Stat.IsDir() && !h.idle() {
		return x, false, nil
	}
	if x.Marks, ok, err = h.takable(w.special); !ok || err != nil || w.flush == nil {
		return x, ok, err
	}
	own := h
	h = nil // it is the flusher's
	if at.Stat.IsDir() {
		return x, true, w.flush.addOpen(own)
	}
	return x, true, w.flush.AddFile(own)
}

// labelXattr is a label of SELinux. A copy would get it from its directory, too.
const labelXattr = "security.selinux"

// takable returns the overlayfs marks of h. It reports whether all other attributes may stay.
func (h *Handle) takable(special bool) (marks Xattrs, ok bool, err error) {
	names, err := h.XattrNames()
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		switch {
		case WantedXattr(name), name == labelXattr, name == CapabilityXattr && special:
		case name == OverlayPrefix+"redirect" || name == OverlayPrefix+"metacopy":
			return nil, false, nil
		case strings.HasPrefix(name, OverlayPrefix):
			v, _, err := h.GetXattr(name)
			if err != nil {
				return nil, false, err
			}
			if marks == nil {
				marks = Xattrs{}
			}
			marks[name] = v
		default:
			return nil, false, nil
		}
	}
	return marks, true, nil
}

// idle reports whether nobody else has the file open or mapped. Only then does the kernel grant a lease.
func (h *Handle) idle() bool {
	if _, err := unix.FcntlInt(uintptr(h.FD), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(h.FD), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

// Mark sets or removes the marks that an object below h had in an upper directory.
func (h *Handle) Mark(path string, marks map[string][]byte, set bool) error {
	f, err := h.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer f.Close()
	for name, v := range marks {
		if set {
			err = unix.Fsetxattr(int(f.FD), name, v, 0)
		} else if err = unix.Fremovexattr(int(f.FD), name); err == unix.ENODATA {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
