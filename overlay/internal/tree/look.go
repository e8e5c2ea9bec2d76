//go:build linux

package tree

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// MaxSights is how many names the walk looks at before it enters the first directory among them.
	MaxSights = 512

	// fewSights is how many names are not worth another thread.
	fewSights = 32
)

// buffer returns an empty buffer for giveBack.
func (w *Walk) buffer() []sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		b := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return b
	}
	return nil
}

func (w *Walk) giveBack(sights []sight) {
	clear(sights)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, sights[:0])
}

// TakeRepos returns the repositories that were found since the last call, without those that a survey finds.
func (w *Walk) TakeRepos() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.repos
	w.repos = nil
	return list
}

func (w *Walk) look(f *frame, names []string, sights []sight, from, to int) {
	for i := from; i < to; i++ {
		l := &sights[i]
		l.path = JoinPath(f.path, names[i])
		if len(l.path) > MaxPath {
			l.op, l.err = "look at", unix.ENAMETOOLONG
			continue
		}
		l.op, l.err = w.entry(f, names[i], l)
		// Another commit replaces a file once. Whoever replaces it all the time must not delay the walk.
		for tries := 0; l.err == ErrMoved && tries < 4; tries++ {
			*l = sight{path: l.path, n: Diff{}}
			l.op, l.err = w.entry(f, names[i], l)
		}
	}
}

// entry looks at one name of the directory f. With an error, op is what failed.
func (w *Walk) entry(f *frame, name string, l *sight) (op string, err error) {
	n := &l.n
	if n.Up, n.HasUp, err = f.up.Lstat(name); err != nil {
		return "look at", err
	}
	if !n.HasUp && !f.opaque {
		return "", nil // it is gone; the command is still running
	}
	n.HasUp = n.HasUp && !n.Up.IsWhiteout()
	settled, isSettled := w.Settled[l.path]
	if isSettled && n.HasUp && !n.Up.IsDir() && settled == n.Up.Ctime {
		return "", nil
	}
	if f.low != nil {
		if n.Low, n.HasLow, err = f.low.Lstat(name); err != nil {
			return "look at", err
		}
	}
	switch {
	case !n.HasUp:
		if n.HasLow && !(isSettled && settled == 0) {
			w.fill(n, l.path)
		}
		return "", nil
	case n.Up.IsDir():
		l.dir = true
		return "", nil
	case n.HasLow && n.Up.Typ() == n.Low.Typ():
		if err := w.compare(f, name, n); err != nil {
			return "compare", err
		}
		l.twin = n.Parts == (Parts{}) && n.Up.Nlink > 1
		w.fillModified(n, l.path)
		return "", nil
	}
	t, err := f.up.Traits(name, n.Up)
	if err == unix.ENOENT {
		return "", nil // as above
	}
	if err != nil {
		return "read attributes", err
	}
	n.note(t)
	w.fill(n, l.path)
	return "", nil
}

// enter opens the directory name of f as sub, and compares it with the project's.
func (w *Walk) enter(f, sub *frame, name string, n *Diff) (err error) {
	if sub.up, err = f.up.Dir(name, n.Up); err != nil {
		sub.up = nil
		return err
	}
	opaque, err := sub.up.opaque()
	if err != nil {
		return err
	}
	sub.opaque = sub.opaque || opaque
	if !n.HasLow {
		n.Origin, err = sub.up.Origin()
		return err
	}
	if !n.Low.IsDir() {
		return nil
	}
	if sub.low, err = f.low.Dir(name, n.Low); err != nil {
		sub.low = nil
		if err == unix.ENOENT {
			err = ErrMoved
		}
		return err
	}
	if f.depth > 0 { // a survey finds those above
		if _, ok, err := sub.low.Lstat(".git"); ok && err == nil {
			w.mu.Lock()
			w.repos = append(w.repos, filepath.Join(w.Root, sub.path))
			w.mu.Unlock()
		}
	}
	n.Parts = accessParts(n.Up, n.Low)
	same, err := sameXattrs(sub.up, sub.low)
	if !same {
		n.Parts.Attributes = true
	}
	return err
}

func (w *Walk) fill(n *Diff, path string) {
	n.At, n.Changed = path, true
	if n.HasLow && n.Low.IsDir() && !(n.HasUp && n.Up.IsDir()) {
		w.below(n)
	}
}

// fillModified is fill for an object that both sides have with the same type, if there is a change.
func (w *Walk) fillModified(n *Diff, path string) {
	if w.Retimed != nil && n.Parts == (Parts{}) && n.Up.Mtime != n.Low.Mtime && (!n.Up.IsDir() || n.Up.Touched) {
		w.Retimed.Add(1)
	}
	switch {
	case n.Parts != Parts{}:
	case w.Times && n.Up.Mtime != n.Low.Mtime:
		n.TimeOnly = true
	default:
		return
	}
	w.fill(n, path)
}

// below counts the objects in the project's directory of n.
func (w *Walk) below(n *Diff) {
	n.Newest = 1
	at, err := WalkBelow(w.Low, n.At, func(f Found) bool {
		n.Inside++
		if !f.Stat.IsDir() && f.Stat.Nlink == 1 { // another name may be moved before
			n.Newest = max(n.Newest, f.Stat.Ctime)
		}
		if f.Stat.Ctime > w.Created {
			n.Late = append(n.Late, f)
		}
		return true
	})
	if err != nil {
		n.BelowErr = &fs.PathError{Op: "list", Path: filepath.Join(w.Root, at), Err: err}
	}
}
