package overlay

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A ledger holds what is settled, see the type of that name.
type ledger struct{ at map[place]settled }

func (l *ledger) load(m *meta) {
	l.at = make(map[place]settled, len(m.Settled))
	for _, st := range m.Settled {
		l.at[place{st.Root, string(st.Path)}] = st
	}
}

func (l *ledger) set(at place, st settled) {
	st.Root, st.Path = at.root, rawText(at.path)
	l.at[at] = st
}

// list returns all that is settled, in path order.
func (l *ledger) list() []settled {
	list := make([]settled, 0, len(l.at))
	for _, st := range l.at {
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b settled) int {
		if a.Root != b.Root {
			return a.Root - b.Root
		}
		return comparePaths(string(a.Path), string(b.Path))
	})
	return list
}

// note settles what is at a place of the project now.
func (t *tx) note(l *ledger, at place, upper int64, done bool) {
	st := settled{Upper: upper, Done: done}
	if now, ok := t.look(at); ok {
		st.Lower = now.ctime
	}
	l.set(at, st)
}

// refresh notes that the ctime at a place is our doing.
func (t *tx) refresh(l *ledger, at place) {
	old := l.at[at]
	t.note(l, at, old.Upper, old.Done)
}

// noteTimes notes that of all objects that stay and were touched.
func (t *tx) noteTimes(l *ledger) {
	for _, r := range t.j.Times {
		if r.Clean {
			t.refresh(l, place{r.Root, string(r.Path)})
		}
	}
}

// noteBack settles what was put back into the project: that it has a new ctime is our
// doing, and what the session has for it is a change again.
func (t *tx) noteBack(l *ledger) {
	for _, n := range t.j.Nodes {
		if n.Kind == 0 {
			continue
		}
		if at := (place{n.Root, string(n.Path)}); n.Old.Ino != 0 {
			t.note(l, at, 0, false)
		} else {
			delete(l.at, at)
		}
	}
	t.noteTimes(l)
}

// look tells what is at a place of the project.
func (t *tx) look(at place) (stat, bool) {
	dir, name := splitPath(at.path)
	if at.path == "." {
		dir, name = ".", "."
	}
	if t.seen == nil || t.seenAt.root != at.root || t.seenAt.path != dir {
		t.seen.close()
		t.seen = nil
		d, err := t.low[at.root].open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err == nil && !isRoot() && unix.Faccessat(d.fd, ".", unix.X_OK, unix.AT_EACCESS) != nil {
			d.close()
			err = unix.EACCES
		}
		if err == unix.EACCES {
			var own *handle
			if own, err = t.doors.open(place{at.root, dir}); err == nil {
				d, err = own.open(".", unix.O_PATH|unix.O_DIRECTORY)
			}
		}
		if err != nil {
			return stat{}, false
		}
		t.seen, t.seenAt = d, place{at.root, dir}
	}
	st, err := t.seen.lstat(name)
	if w, ok := t.doors.widened[at]; ok && w.ino == st.ino {
		st.mode = st.typ() | w.mode
	}
	return st, err == nil
}
