//go:build linux

package overlay

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A ledger holds what is settled, see the type of that name.
type ledger struct {
	at    map[store.Place]store.Settled
	files map[uint64]int64 // ctimes of files with several names, which may be in other roots, by inode number
}

func (l *ledger) load(m *store.Meta) {
	l.files = make(map[uint64]int64, len(m.Files))
	for _, f := range m.Files {
		l.files[f.Ino] = f.Ctime
	}
	l.at = make(map[store.Place]store.Settled, len(m.Settled))
	for _, st := range m.Settled {
		l.at[store.Place{Root: st.Root, Path: string(st.Path)}] = st
	}
}

func (l *ledger) set(at store.Place, st store.Settled) {
	st.Root, st.Path = at.Root, store.Text(at.Path)
	l.at[at] = st
}

// store puts what is settled into m.
func (l *ledger) store(m *store.Meta) {
	m.Settled = l.list()
	m.Files = nil
	for ino, ctime := range l.files {
		m.Files = append(m.Files, store.SettledFile{Ino: ino, Ctime: ctime})
	}
	slices.SortFunc(m.Files, func(a, b store.SettledFile) int {
		return cmp.Compare(a.Ino, b.Ino)
	})
}

// list returns all paths that are settled, in order.
func (l *ledger) list() []store.Settled {
	list := make([]store.Settled, 0, len(l.at))
	for _, st := range l.at {
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b store.Settled) int {
		if a.Root != b.Root {
			return a.Root - b.Root
		}
		return tree.ComparePaths(string(a.Path), string(b.Path))
	})
	return list
}

// note settles what is at a place of the project now.
func (t *tx) note(l *ledger, at store.Place, upper int64, done bool) {
	st := store.Settled{Upper: upper, Done: done}
	if now, ok := t.look(at); ok {
		st.Lower = now.Ctime
	}
	l.set(at, st)
}

// refresh notes that the ctime at a place is our doing.
func (t *tx) refresh(l *ledger, at store.Place) {
	old := l.at[at]
	t.note(l, at, old.Upper, old.Done)
}

// noteFiles notes the ctimes of old objects that may have other names in the project.
func (t *tx) noteFiles(l *ledger) {
	for i, m := range t.j.Moves {
		n := t.j.Nodes[m.First]
		st := t.stage(m)
		if n.Old.Ino == 0 || n.Old.Mode&unix.S_IFMT == unix.S_IFDIR || st == nil {
			continue
		}
		for _, name := range [...]string{strconv.Itoa(i), spare(strconv.Itoa(i))} {
			if now, err := st.Lstat(name); err == nil && n.Old.is(now) && now.Nlink > 1 {
				l.files[now.Ino] = now.Ctime
			}
		}
	}
}

// noteTimes notes that of all objects that stay and were touched.
func (t *tx) noteTimes(l *ledger) {
	for _, r := range t.j.Times {
		if now, ok := t.look(store.Place{Root: r.Root, Path: string(r.Path)}); ok && r.Clean && now.Ino == r.Ino && (now.IsDir() || now.Mtime.Nano() == r.Before || now.Mtime.Nano() == r.After) {
			t.refresh(l, store.Place{Root: r.Root, Path: string(r.Path)})
		}
	}
}

// noteBack settles what was put back into the project: that it has a new ctime is our
// doing, and what the session has for it is a change again.
func (t *tx) noteBack(l *ledger) {
	again := map[store.Place]bool{} // directories that were made again
	for _, m := range t.j.Moves {
		if n := t.j.Nodes[m.First]; m.Dir != nil {
			again[store.Place{Root: n.Root, Path: string(n.Path)}] = true
		}
	}
	for _, n := range t.j.Nodes {
		if n.Kind == "" {
			continue
		}
		if at := (store.Place{Root: n.Root, Path: string(n.Path)}); n.Old.Ino != 0 {
			now, ok := t.look(at)
			if !ok || !n.Clean || !n.Old.same(now) && !again[at] {
				// Somebody else's doing: a conflict as before.
				if own, was := l.at[at]; was {
					own.Done = false
					l.set(at, own)
				}
				continue
			}
			t.note(l, at, 0, false)
			if now.Nlink > 1 && !now.IsDir() {
				l.files[now.Ino] = now.Ctime
			}
		} else {
			delete(l.at, at)
		}
	}
	t.noteTimes(l)
}

// noteCopies settles what is in directories of which copies were put back, or that were made
// again: all of it has new ctimes. It fails if the project could not be looked at.
func (t *tx) noteCopies(l *ledger) error {
	var below func(at store.Place) error
	below = func(at store.Place) error {
		names, err := t.list(at)
		if err != nil {
			return &fs.PathError{Op: "list", Path: filepath.Join(t.s.roots[at.Root], at.Path), Err: err}
		}
		for _, name := range names {
			sub := store.Place{Root: at.Root, Path: tree.JoinPath(at.Path, name)}
			t.note(l, sub, 0, false)
			if now, ok := t.look(sub); ok && now.IsDir() {
				if err := below(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, m := range t.j.Moves {
		n := t.j.Nodes[m.First]
		if m.Stage == 0 && m.Dir == nil || n.Old.Mode&unix.S_IFMT != unix.S_IFDIR || n.Kind == "" {
			continue
		}
		at := store.Place{Root: n.Root, Path: string(n.Path)}
		if now, ok := t.look(at); !ok || !now.IsDir() {
			continue // something else is in its place
		}
		if err := below(at); err != nil {
			return err
		}
	}
	return t.lookErr
}

// noteDoors notes that the ctimes of directories that had to be opened are our doing. It is
// to be called after whatever else looks at the project.
func (t *tx) noteDoors(l *ledger) error {
	if err := t.doors.relock(); err != nil {
		return err
	}
	for at, list := range t.doors.ctimes {
		own, ok := l.at[at]
		if ok && slices.Contains(list, own.Lower) || !ok && list[0] <= t.s.meta().Created.UnixNano() {
			own.Lower = list[len(list)-1]
			l.set(at, own)
		}
	}
	return nil
}

// look tells what is at a place of the project.
func (t *tx) look(at store.Place) (tree.Stat, bool) {
	dir, name := tree.SplitPath(at.Path)
	if at.Path == "." {
		dir, name = ".", "."
	}
	if t.seen == nil || t.seenAt.Root != at.Root || t.seenAt.Path != dir {
		t.seen.Close()
		t.seen = nil
		d, err := t.low[at.Root].Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err == nil && !tree.IsRoot() && unix.Faccessat(int(d.FD), ".", unix.X_OK, unix.AT_EACCESS) != nil {
			d.Close()
			err = unix.EACCES
		}
		if err == unix.EACCES {
			var own *tree.Handle
			if own, err = t.doors.open(store.Place{Root: at.Root, Path: dir}); err == nil {
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
	t.noteLook(at, err)
	if w, ok := t.doors.widened[at]; ok && w.ino == st.Ino {
		st.Mode = st.Typ() | w.mode
	}
	return st, err == nil
}

// noteLook keeps the first error of look that does not say that nothing is there.
func (t *tx) noteLook(at store.Place, err error) {
	switch err {
	case nil, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES:
	default:
		t.lookErr = cmp.Or[error](t.lookErr, &fs.PathError{Op: "look at", Path: filepath.Join(t.s.roots[at.Root], at.Path), Err: err})
	}
}
