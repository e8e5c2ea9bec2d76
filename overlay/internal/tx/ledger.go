//go:build linux

package tx

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Ledger holds what is settled, see store.Settled.
type Ledger struct {
	At    map[store.Place]store.Settled
	Files map[uint64]int64 // ctimes of files with several names, by inode number; names can be in other roots
}

func (l *Ledger) Load(m *store.Meta) {
	l.Files = make(map[uint64]int64, len(m.Files))
	for _, f := range m.Files {
		l.Files[f.Ino] = f.Ctime
	}
	l.At = make(map[store.Place]store.Settled, len(m.Settled))
	for _, st := range m.Settled {
		l.At[store.Place{Root: st.Root, Path: string(st.Path)}] = st
	}
}

func (l *Ledger) Set(at store.Place, st store.Settled) {
	st.Root, st.Path = at.Root, store.Text(at.Path)
	l.At[at] = st
}

func (l *Ledger) Save(m *store.Meta) {
	m.Settled = l.List()
	m.Files = nil
	for ino, ctime := range l.Files {
		m.Files = append(m.Files, store.SettledFile{Ino: ino, Ctime: ctime})
	}
	slices.SortFunc(m.Files, func(a, b store.SettledFile) int {
		return cmp.Compare(a.Ino, b.Ino)
	})
}

// List returns everything that is settled, in path order.
func (l *Ledger) List() []store.Settled {
	list := make([]store.Settled, 0, len(l.At))
	for _, st := range l.At {
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b store.Settled) int {
		if a.Root != b.Root {
			return a.Root - b.Root
		}
		return paths.Compare(string(a.Path), string(b.Path))
	})
	return list
}

// Note settles the object that is now at a place of the project.
func (t *Tx) Note(l *Ledger, at store.Place, upper int64, done bool) {
	st := store.Settled{Upper: upper, Done: done}
	if now, ok := t.look(at); ok {
		if t.late(now) {
			return
		}
		st.Lower = now.Ctime
	}
	l.Set(at, st)
}

// late reports whether somebody may have changed an object since the transaction was taken back.
func (t *Tx) late(now tree.Stat) bool { return t.until != 0 && now.Ctime > t.until }

// refresh notes that nsrun caused the ctime at a place.
func (t *Tx) refresh(l *Ledger, at store.Place) {
	old := l.At[at]
	t.Note(l, at, old.Upper, old.Done)
}

// NoteFiles notes the ctimes of old objects that may have other names in the project, and of files that got new names.
func (c *Writer) NoteFiles(l *Ledger) {
	t := c.Tx
	for _, w := range c.linked {
		if now, ok := t.look(w.Place); ok && now.Ino == w.ino {
			l.Files[now.Ino] = now.Ctime
		}
	}
	for i, m := range t.Journal.Moves {
		n := t.Journal.Nodes[m.First]
		st := t.Stage(m)
		if !n.Clean || n.Old.Mode&unix.S_IFMT == unix.S_IFDIR || c.planned[m.First].Low.Nlink < 2 || st == nil {
			continue
		}
		for _, name := range [...]string{strconv.Itoa(i), spare(strconv.Itoa(i))} {
			if now, err := st.Lstat(name); err == nil && n.Old.is(now) && now.Nlink > 1 {
				l.Files[now.Ino] = now.Ctime
			}
		}
	}
}

// NoteStays notes the ctimes of files whose other names were copied to the backup and then removed. It reports whether
// there are any.
func (c *Writer) NoteStays(l *Ledger) bool {
	for _, s := range c.stays {
		if now, ok := c.Tx.look(store.Place{Root: s.Root, Path: string(s.Path)}); ok && s.File.Unchanged(now) {
			l.Files[now.Ino] = now.Ctime
		}
	}
	return len(c.stays) > 0
}

// NoteTimes notes the ctimes of all objects that stay and got new times.
func (t *Tx) NoteTimes(l *Ledger) {
	for _, r := range t.Journal.Times {
		if now, ok := t.look(store.Place{Root: r.Root, Path: string(r.Path)}); ok && r.Clean && now.Ino == r.Ino && !t.late(now) && (now.IsDir() || Moment(now.Mtime) == r.Before || Moment(now.Mtime) == r.After) {
			t.refresh(l, store.Place{Root: r.Root, Path: string(r.Path)})
			if !now.IsDir() && now.Nlink > 1 {
				l.Files[now.Ino] = now.Ctime
			}
		}
	}
}

// noteBack settles objects that were put back into the project: nsrun caused their new
// ctimes, and the session's versions are changes again.
func (t *Tx) noteBack(l *Ledger) {
	again := map[store.Place]bool{} // directories that were made again
	for _, m := range t.Journal.Moves {
		if n := t.Journal.Nodes[m.First]; m.Dir != nil {
			again[store.Place{Root: n.Root, Path: string(n.Path)}] = true
		}
	}
	for _, n := range t.Journal.Nodes {
		if n.Kind == "" {
			continue
		}
		if at := (store.Place{Root: n.Root, Path: string(n.Path)}); n.Old.Ino != 0 {
			now, ok := t.look(at)
			if !ok || !n.Clean || t.late(now) || !n.Old.same(now) && !again[at] {
				// Somebody else changed it: it stays a conflict.
				if own, was := l.At[at]; was {
					own.Done = false
					l.Set(at, own)
				}
				continue
			}
			t.Note(l, at, 0, false)
			if now.Nlink > 1 && !now.IsDir() {
				l.Files[now.Ino] = now.Ctime
			}
		} else {
			delete(l.At, at)
		}
	}
	t.NoteTimes(l)
}

// noteCopies settles what is in directories that were made again, or of which copies were put back, because it has new
// ctimes. What has older ones was changed by others: a commit may have been killed long ago, and somebody may have used
// the project since. It fails if the project cannot be looked at.
func (t *Tx) noteCopies(l *Ledger) error {
	var below func(at store.Place) error
	below = func(at store.Place) error {
		names, err := t.readDir(at)
		if err != nil {
			return &fs.PathError{Op: "list", Path: filepath.Join(t.s.Roots[at.Root], at.Path), Err: err}
		}
		for _, name := range names {
			sub := store.Place{Root: at.Root, Path: tree.JoinPath(at.Path, name)}
			now, ok := t.look(sub)
			if ok && now.Ctime >= t.since {
				t.Note(l, sub, 0, false)
			}
			if ok && now.IsDir() {
				if err := below(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	defer func(until int64) { t.until = until }(t.until)
	t.until = t.copied
	for _, m := range t.Journal.Moves {
		n := t.Journal.Nodes[m.First]
		if m.Stage == 0 && m.Dir == nil || n.Old.Mode&unix.S_IFMT != unix.S_IFDIR || n.Kind == "" || !n.Clean {
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
	return t.LookErr
}

// NoteDoors notes the ctimes of directories whose modes nsrun changed. Call it after
// everything else that looks at the project.
func (t *Tx) NoteDoors(l *Ledger) error {
	if err := t.Doors.Relock(); err != nil {
		return err
	}
	for at, list := range t.Doors.CTimes {
		l.follow(at, list, list[len(list)-1], t.s.Meta().Began())
	}
	return nil
}

// follow notes that nsrun caused the ctime of a directory, if nobody had changed it before; list are the ctimes that it
// had until then. It reports whether there was something to note.
func (l *Ledger) follow(at store.Place, list []int64, now, began int64) bool {
	own, ok := l.At[at]
	if ok && !slices.Contains(list, own.Lower) || !ok && list[0] > began || own.Lower == now {
		return false
	}
	own.Lower = now
	l.Set(at, own)
	return true
}
