//go:build linux

package tree

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// fail yields an error and reports whether the walk is to go on.
func (w *Walk) fail(op, path string, err error) bool {
	if len(path) > 256 {
		path = path[:256] + "…"
	}
	return w.Yield(Diff{}, &fs.PathError{Op: op, Path: filepath.Join(w.Root, path), Err: err})
}

// Run walks the root. It returns false if Yield did.
func (w *Walk) Run() bool {
	f := &frame{path: "."}
	defer f.Close()
	n := Diff{HasUp: true, HasLow: true}
	var err error
	if f.up, err = w.Up.Top(); err == nil {
		n.Up, err = f.up.Stat()
	}
	if err == nil {
		f.low, err = w.Low.Top()
	}
	if err == nil {
		n.Low, err = f.low.Stat()
	}
	if err == nil {
		f.opaque, err = f.up.opaque()
	}
	if err != nil {
		return w.fail("open", ".", err)
	}
	// The root's mode and owner are compared with those of the new upper directory,
	// which the caller may not have been able to give the project's owner.
	was := n.Low
	was.Mode, was.UID, was.GID = was.Typ()|w.Base.Mode, w.Base.UID, w.Base.GID
	n.Parts = accessParts(n.Up, was)
	w.fillModified(&n, ".")
	return w.emit(&n) && w.list(f)
}

// emit yields n if it is a change, after the directories above that are held back.
func (w *Walk) emit(n *Diff) bool {
	if !n.Changed {
		return true
	}
	for _, dir := range w.held {
		if !w.Yield(dir, nil) {
			return false
		}
	}
	w.held = w.held[:0]
	return w.Yield(*n, nil)
}

// list yields the changes in the directory f.
func (w *Walk) list(f *frame) bool {
	names, lowErr, err := f.Names()
	if err != nil {
		return w.fail("list", f.path, err)
	}
	if lowErr != nil && !w.fail("list", f.path, lowErr) {
		return false
	}
	for chunk := range slices.Chunk(names, MaxSights) {
		if !w.chunk(f, chunk) {
			return false
		}
	}
	return true
}

// chunk yields the changes at and below some names of the directory f.
func (w *Walk) chunk(f *frame, names []string) bool {
	if err := f.wake(); err != nil {
		return w.lost(f, err)
	}
	sights := slices.Grow(w.buffer(), len(names))[:len(names)]
	defer w.giveBack(sights)
	// Nearly all of the time is spent in the kernel.
	workers := max(1, min(runtime.GOMAXPROCS(0), len(names)/fewSights))
	var wg sync.WaitGroup
	part := (len(names) + workers - 1) / workers
	for k := 1; k < workers; k++ {
		wg.Go(func() { w.look(f, names, sights, k*part, min((k+1)*part, len(names))) })
	}
	w.look(f, names, sights, 0, min(part, len(names)))
	wg.Wait()
	return w.tell(f, names, sights)
}

// tell yields the changes at and below names that were looked at.
func (w *Walk) tell(f *frame, names []string, sights []sight) bool {
	if slices.ContainsFunc(sights, func(l sight) bool { return l.dir }) {
		if err := f.wake(); err != nil {
			return w.lost(f, err)
		}
	}
	ahead := w.prefetch(f, names, sights)
	defer ahead.end()
	for i := range names {
		l := &sights[i]
		if l.twin {
			w.meet(l)
		}
		more := true
		switch {
		case l.err != nil:
			if len(l.path) > MaxPath {
				more = w.tooDeep(l.path)
			} else {
				more = w.fail(l.op, l.path, l.err)
			}
		case l.dir:
			if err := f.wake(); err != nil {
				return w.lost(f, err)
			}
			more = w.visitDir(f, names[i], l, ahead.next())
		default:
			more = w.emit(&l.n)
		}
		if !more {
			return false
		}
	}
	return true
}

// meet notes a twin. A file that became another name of an earlier one is a change even if the contents are equal.
func (w *Walk) meet(l *sight) {
	id := Inode{l.n.Up.Dev, l.n.Up.Ino}
	first, known := w.Twins[id]
	switch {
	case !known:
		if w.Twins == nil {
			w.Twins = map[Inode]Twin{}
		}
		w.Twins[id] = Twin{l.path, l.n.Low}
	case first.Low.Ino != l.n.Low.Ino || first.Low.Dev != l.n.Low.Dev:
		l.n.Parts.Content, l.n.TimeOnly = true, false
		w.fill(&l.n, l.path)
	}
}

// tooDeep yields an error about a path that is too long, unless a directory above was dropped.
func (w *Walk) tooDeep(path string) bool {
	if len(w.held) > 0 {
		return true
	}
	n := Diff{At: path}
	n.Deep = &fs.PathError{Op: "look at", Path: filepath.Join(w.Root, path[:256]+"…"),
		Err: fmt.Errorf("its path is longer than %d bytes, and cannot be committed: %w", MaxPath, unix.ENAMETOOLONG)}
	return w.Yield(n, n.Deep)
}

// lost yields an error about a directory that could not be opened again. It reports whether the walk goes on.
func (w *Walk) lost(f *frame, err error) bool {
	if err == unix.ENOENT {
		return true // it is gone; the command is still running
	}
	return w.fail("open", f.path, err)
}

// visitDir yields the change of a directory, if there is one, and the changes in it. before
// is the directory if it was prefetched, else nil.
func (w *Walk) visitDir(f *frame, name string, l *sight, before *prefetched) bool {
	path, n := l.path, l.n
	sub := &frame{path: path, depth: f.depth + 1, opaque: f.opaque}
	var err error
	if before != nil && (before.err == unix.EMFILE || before.err == unix.ENFILE) {
		before.sub.Close() // the walk alone needs fewer
		before = nil
	}
	if before != nil {
		sub, n, err = before.sub, before.n, before.err
	} else {
		err = w.enter(f, sub, name, &n)
	}
	defer sub.Close()
	if err == unix.ENOENT {
		return true // it is gone; the command is still running
	}
	if err != nil && !w.fail("open", path, err) {
		return false
	}
	// The directory exists, even if its content could not be read.
	st, ok := w.Settled[path]
	dropped := ok && st != 0 && st == n.Up.Ctime
	switch {
	case !n.HasLow:
		w.fill(&n, path)
	case !n.Low.IsDir():
		w.fill(&n, path)
	case err == nil && !dropped:
		w.fillModified(&n, path)
	}
	if dropped && n.Changed {
		// It is a change again if something was written to it since.
		held := len(w.held)
		w.held = append(w.held, n)
		defer func() { w.held = w.held[:min(held, len(w.held))] }()
	} else if !w.emit(&n) {
		return false
	}
	if err != nil {
		return true
	}
	if before != nil && before.seen {
		defer w.giveBack(before.sights)
		return w.tell(sub, before.names, before.sights)
	}
	if f.depth >= maxHeld {
		f.park()
	}
	if err := sub.wake(); err != nil { // it was too large to be prefetched
		return w.lost(sub, err)
	}
	return w.list(sub)
}
