//go:build linux

package tx

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// readDir returns the names in a directory of the project.
func (t *Tx) readDir(at store.Place) ([]string, error) {
	d, err := t.readable(at)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}

// readable opens a directory of the project for reading. If its owner cannot read it, and the opener cannot either, it
// is unlocked for that.
func (t *Tx) readable(at store.Place) (tree.Dir, error) { return t.reader(at.Root).At(at.Path) }

// reader returns a project in which directories are unlocked for reading. It is not closed.
func (t *Tx) reader(root int) *tree.Real {
	return &tree.Real{H: t.low[root].With(&t.opener), Unlock: true, Book: t.s.Book.Keeper(false, root), Unbook: t.s.Book.Unnote,
		Changed: func(path string, before tree.Stat, h *tree.Handle) {
			t.Doors.CTimes.Follow(store.Place{Root: root, Path: path}, before, h)
		}}
}

// ownTree is a directory of the transaction, whose content is unlocked for reading.
func (t *Tx) ownTree(h *tree.Handle, name string) *tree.Real {
	dir := tree.JoinPath(tree.JoinPath(Name, strconv.Itoa(t.N)), name)
	return &tree.Real{H: h, Unlock: true, Book: t.s.Book.OwnKeeper(dir), Unbook: t.s.Book.Unnote}
}

// stageTree is the k-th stage, whose content is unlocked for reading; 0 is Objects.
func (t *Tx) stageTree(k int, h *tree.Handle) *tree.Real {
	own := t.ownTree(h, ObjectsName)
	if k > 0 {
		st := t.staged[k-1]
		at := tree.JoinPath(string(st.Dir), st.Name)
		own.Book = func(path string, ino uint64, mode uint32) error {
			return t.s.Book.Note(store.BookEntry{Root: st.Root, Path: store.Text(tree.JoinPath(at, path)), Ino: ino, Mode: mode})
		}
	}
	return own
}

func (t *Tx) look(at store.Place) (tree.Stat, bool) {
	dir, name := tree.SplitPath(at.Path)
	if at.Path == "." {
		dir, name = ".", "."
	}
	if t.seen == nil || t.seenAt.Root != at.Root || t.seenAt.Path != dir {
		t.seen.Close()
		t.seen = nil
		d, err := t.low[at.Root].With(&t.opener).Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err == unix.EACCES {
			var own *tree.Handle
			if own, err = t.Doors.open(store.Place{Root: at.Root, Path: dir}); err == nil {
				d, err = own.Open(".", unix.O_PATH|unix.O_DIRECTORY)
			}
		}
		if err != nil {
			t.noteLook(at, err)
			return tree.Stat{}, false
		}
		t.seen, t.seenAt = d, store.Place{Root: at.Root, Path: dir}
	}
	st, err := t.seen.Lstat(name)
	if err == unix.EACCES && !tree.IsRoot() {
		var own *tree.Handle
		if own, err = t.Doors.open(store.Place{Root: at.Root, Path: dir}); err == nil {
			st, err = own.Lstat(name)
		}
	}
	t.noteLook(at, err)
	if w, ok := t.Doors.widened[at]; ok && w.ino == st.Ino {
		st.Mode = st.Typ() | w.mode
	}
	return st, err == nil
}

// noteLook keeps the first error of look, except those that mean that nothing is there.
func (t *Tx) noteLook(at store.Place, err error) {
	switch err {
	case nil, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES:
	default:
		t.LookErr = cmp.Or[error](t.LookErr, &fs.PathError{Op: "look at", Path: filepath.Join(t.s.Roots[at.Root], at.Path), Err: err})
	}
}
