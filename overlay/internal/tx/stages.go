//go:build linux

package tx

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// makeStages decides for each move in which stage its objects are, and makes stages in the projects to which objects
// cannot be renamed from the session's own directory. apart are directories that need stages of their own.
func (t *Tx) makeStages(apart map[store.Place]bool) error {
	index := map[store.Place]int{} // of the stage in a directory, plus one
	mount, err := t.Objects.Mount()
	if err != nil {
		return &fs.PathError{Op: "look at", Path: t.s.Path, Err: err}
	}
	near := make([]bool, len(t.low))
	for i, low := range t.low {
		m, err := low.Mount()
		if err != nil {
			return &fs.PathError{Op: "look at", Path: t.s.Roots[i], Err: err}
		}
		near[i] = m == mount && !t.s.Far
	}
	var more []Stage
	for i := range t.Journal.Moves {
		m := &t.Journal.Moves[i]
		if m.Stage != 0 {
			continue // an undo has that one already
		}
		n := t.Journal.Nodes[m.First]
		dir, _ := tree.SplitPath(string(n.Path))
		at := store.Place{Root: n.Root, Path: dir}
		if !apart[at] {
			if near[n.Root] {
				continue
			}
			at.Path = "."
			if k, ok := index[at]; ok {
				m.Stage = k
				continue
			}
			if !t.writable(at) {
				at = t.nearest(store.Place{Root: n.Root, Path: dir})
			}
		}
		if k, ok := index[at]; ok {
			m.Stage = k
			continue
		}
		d, err := t.Doors.open(at)
		if err != nil {
			return &fs.PathError{Op: "open", Path: filepath.Join(t.s.Roots[at.Root], at.Path), Err: err}
		}
		st, err := d.Stat()
		if err != nil {
			return &fs.PathError{Op: "look at", Path: filepath.Join(t.s.Roots[at.Root], at.Path), Err: err}
		}
		more = append(more, Stage{Root: at.Root, Dir: store.Text(at.Path), Name: StageMark + sys.RandomText(12), Before: Moment(st.Mtime)})
		index[at] = len(t.staged) + len(more)
		m.Stage = index[at]
	}
	t.staged = append(t.staged, more...)
	return t.buildStages()
}

// nearest is a directory of a project or, if that is gone, the lowest one above it: what was in it may be kept there.
func (t *Tx) nearest(at store.Place) store.Place {
	for at.Path != "." {
		if _, err := t.Doors.open(at); err != unix.ENOENT && !tree.Swapped(err) {
			break
		}
		at.Path, _ = tree.SplitPath(at.Path)
	}
	return at
}

// writable reports whether the caller may create files in a directory of a project.
func (t *Tx) writable(at store.Place) bool {
	if tree.IsRoot() {
		return true
	}
	d, err := t.Doors.open(at)
	return err == nil && sys.Access(int(d.FD), ".", unix.W_OK|unix.X_OK) == nil
}

// buildStages makes the directories of the stages, after it has recorded their names.
func (t *Tx) buildStages() error {
	if len(t.staged) == 0 {
		return nil
	}
	have := len(t.stages)
	t.stages = slices.Grow(t.stages, len(t.staged)-have)[:len(t.staged)]
	data, err := json.Marshal(stages{journalVersion, t.staged})
	if err != nil {
		return err
	}
	if err := t.s.Book.MarkPending(); err != nil { // as in seal
		return &fs.PathError{Op: "write", Path: t.s.Path, Err: err}
	}
	if err := t.dir.ReplaceFile(stagesName, data, new(tree.Flusher)); err != nil {
		return &fs.PathError{Op: "write", Path: t.s.Path, Err: err}
	}
	if err := t.flushNames(); err != nil {
		return &fs.PathError{Op: "write", Path: t.s.Path, Err: err}
	}
	for i, st := range t.staged {
		if i < have {
			continue
		}
		err := func() error {
			d, err := t.Doors.open(store.Place{Root: st.Root, Path: string(st.Dir)})
			if err != nil {
				return err
			}
			if err := d.Mkdir(st.Name); err != nil {
				return err
			}
			t.stages[i], err = d.OpenDir(st.Name)
			return err
		}()
		if err != nil {
			return &fs.PathError{Op: "make directory in", Path: filepath.Join(t.s.Roots[st.Root], string(st.Dir)), Err: err}
		}
	}
	return nil
}

// DropStages removes the stages in projects, with everything in them. It restores the times
// of the directories that had them.
func (t *Tx) DropStages() error {
	if len(t.staged) == 0 {
		return nil
	}
	var errs []error
	for i, st := range t.staged {
		t.stages[i].Close()
		t.stages[i] = nil
		if err := t.dropStage(st); err != nil && err != unix.ENOENT {
			errs = append(errs, &fs.PathError{Op: "remove", Path: filepath.Join(t.s.Roots[st.Root], string(st.Dir), st.Name), Err: err})
		}
	}
	if err := t.Doors.Relock(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	t.staged, t.stages = nil, nil
	if err := t.dir.Unlink(stagesName, 0); err != nil && err != unix.ENOENT { // on a full disk it was not written
		return err
	}
	return nil
}

func (t *Tx) dropStage(st Stage) error {
	d, err := t.Doors.open(store.Place{Root: st.Root, Path: string(st.Dir)})
	if err != nil {
		return err
	}
	_, found, err := d.LstatIf(st.Name)
	if err == nil && !found && tree.ReadOnly(d) { // it was never made, or removed before that
		return nil
	}
	if err == nil && found {
		err = tree.RemoveTree(d, st.Name)
	}
	if err != nil {
		return err
	}
	if h, err := d.Open(".", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		defer h.Close()
		// That is refused if it is somebody else's.
		if err := h.SetMtime(unix.Timespec(t.timeOf(st))); err != nil && err != unix.EPERM && err != unix.EACCES {
			return err
		}
	}
	return t.flushDir(d, st)
}

// flushDir waits until it is on disk that the stage is gone: afterwards nothing knows its name.
func (t *Tx) flushDir(d *tree.Handle, st Stage) error {
	err := d.FlushDir(".")
	if err == unix.EACCES { // the caller may not list it
		if d, err = t.low[st.Root].OpenDir("."); err == nil {
			err = sys.Syncfs(int(d.FD))
			d.Close()
		}
	}
	return err
}

// timeOf is the modification time that a directory gets when the stage in it was removed:
// the one before the stage was made, or the one that the transaction sets.
func (t *Tx) timeOf(st Stage) Moment {
	if t.Journal == nil {
		return st.Before
	}
	for _, r := range t.Journal.Times {
		if r.Root != st.Root || r.Path != st.Dir {
			continue
		}
		if slices.Contains(t.s.Meta().Done, t.N) {
			return r.After
		}
		return r.Before
	}
	return st.Before
}

// Flush waits until what was renamed in the project is on disk.
func (t *Tx) Flush() error {
	var f tree.Flusher
	defer f.Close()
	if err := t.FlushProject(&f); err != nil {
		return err
	}
	if err := f.Wait(); err != nil {
		return &fs.PathError{Op: "flush", Path: t.s.Path, Err: err}
	}
	return nil
}

// FlushProject adds the directories in which something was renamed to f, or flushes them itself.
func (t *Tx) FlushProject(f *tree.Flusher) error {
	if len(t.Journal.Moves) > tree.FsyncMost {
		return t.syncRoots()
	}
	// The backup, too.
	if err := f.AddDir(t.dir, ObjectsName); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "flush", Path: t.s.Path, Err: err}
	}
	seen := map[store.Place]bool{}
	add := func(at store.Place) error {
		if seen[at] {
			return nil
		}
		seen[at] = true
		err := f.AddDir(t.low[at.Root], at.Path)
		switch err {
		case nil, unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
			return nil
		case unix.EACCES: // the caller may not list it, so it cannot be opened for that
			return t.syncRoots()
		}
		return &fs.PathError{Op: "flush", Path: filepath.Join(t.s.Roots[at.Root], at.Path), Err: err}
	}
	for _, m := range t.Journal.Moves {
		n := t.Journal.Nodes[m.First]
		dir, _ := tree.SplitPath(string(n.Path))
		if err := add(store.Place{Root: n.Root, Path: dir}); err != nil {
			return err
		}
	}
	for _, a := range t.Journal.Attrs {
		n := t.Journal.Nodes[a.Node]
		if err := add(store.Place{Root: n.Root, Path: string(n.Path)}); err != nil {
			return err
		}
	}
	return nil
}

// syncRoots flushes the whole file systems of the roots.
func (t *Tx) syncRoots() error {
	for i, low := range t.low {
		d, err := low.OpenDir(".")
		if err == unix.EACCES {
			continue
		}
		if err == nil {
			err = sys.Syncfs(int(d.FD))
			d.Close()
		}
		if err != nil {
			return &fs.PathError{Op: "flush", Path: t.s.Roots[i], Err: err}
		}
	}
	return nil
}
