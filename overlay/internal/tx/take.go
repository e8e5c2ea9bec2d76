//go:build linux

package tx

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A commit of everything that a session has does not copy large files and new directories, but moves them out of the
// upper directory. It does so when the journal is on disk, and first moves them to the place of the copies. An undo
// moves them back. Until then the session has ended, so no mount needs them.

// takeFrom is the size, in bytes, from which a single file is moved. Copying a smaller one
// costs little, and the session keeps it if somebody overwrites it in the project.
const takeFrom = 1 << 20

// take plans to move the new object of move i, with everything in it. It reports whether that is possible.
func (c *Writer) take(i int) (bool, error) {
	j, m := c.Tx.Journal, &c.Tx.Journal.Moves[i]
	n := c.planned[m.First]
	up, is := c.Sides[n.Root].Up.(*tree.Real)
	if !c.Take || !is || !n.HasUp || n.Merged != nil || m.Stage != 0 || m.Dir != nil || c.Sides[n.Root].Stiff ||
		!n.Up.IsDir() && !c.Copier.Many && n.Up.Size < takeFrom {
		return false, nil
	}
	c.Sides[n.Root].release()
	flush := &c.Copier.Flush
	if c.Copier.Many {
		flush = nil
	}
	var found []tree.Taken
	ok, err := up.Takable(n.At, c.Special, flush, func(x tree.Taken) bool {
		k := m.First + len(found)
		found = append(found, x)
		return k < m.End && c.planned[k].At == x.Path && c.planned[k].Up.Same(x.Stat)
	})
	if err != nil || !ok || len(found) != m.End-m.First {
		return false, err
	}
	m.Taken, j.Version = true, takenVersion
	for k, x := range found {
		node := &j.Nodes[m.First+k]
		node.New, node.Marks = identify(x.Stat), x.Marks.Raw()
		c.progress()
	}
	return true, nil
}

// upper opens the directory in the upper directory that has, or had, n.
func (t *Tx) upper(n Node) (*tree.Handle, string, error) {
	dir, name := tree.SplitPath(string(n.Path))
	d, err := t.s.Dir.Open(tree.JoinPath(store.UpperName(n.Root), dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	return d, name, err
}

// mark sets or removes the overlayfs marks of the objects that a move takes, in the upper directory.
func (t *Tx) mark(m Move, set bool) error {
	for _, n := range t.Journal.Nodes[m.First:m.End] {
		if len(n.Marks) == 0 {
			continue
		}
		d, name, err := t.upper(n)
		if err != nil {
			return err
		}
		err = d.Mark(name, n.Marks, set)
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchAll moves the objects that are taken from the upper directory to the transaction's, unless that was done before.
func (t *Tx) fetchAll() error {
	from := map[store.Place]bool{}
	for i, m := range t.Journal.Moves {
		if !m.Taken || t.Objects == nil {
			continue
		}
		n := t.Journal.Nodes[m.First]
		got, err := t.fetch(i)
		if err != nil {
			return t.moveError(i, err)
		}
		if got {
			dir, _ := tree.SplitPath(string(n.Path))
			from[store.Place{Root: n.Root, Path: dir}] = true
		}
	}
	if len(from) == 0 {
		return nil
	}
	// A crash must not leave them both in the project and in the upper directory.
	err := t.flushTaken(from)
	if err != nil {
		err = &fs.PathError{Op: "flush", Path: t.s.Path, Err: err}
	}
	return err
}

// flushTaken flushes the transaction's objects, and directories of the upper directory.
func (t *Tx) flushTaken(uppers map[store.Place]bool) error {
	if len(uppers) > tree.FsyncMost {
		return sys.Syncfs(int(t.Objects.FD))
	}
	var f tree.Flusher
	defer f.Close()
	for at := range uppers {
		if err := f.AddDir(t.s.Dir, tree.JoinPath(store.UpperName(at.Root), at.Path)); err != nil {
			return err
		}
	}
	return tree.InTurn(func() error { return f.AddDir(t.Objects, ".") }, f.Wait)
}

func (t *Tx) fetch(i int) (got bool, err error) {
	m := t.Journal.Moves[i]
	n := t.Journal.Nodes[m.First]
	d, name, err := t.upper(n)
	if err == unix.ENOENT {
		return false, nil // the session was discarded since
	}
	if err != nil {
		return false, err
	}
	defer d.Close()
	if st, found, err := d.LstatIf(name); err != nil || !found || !n.New.is(st) {
		return false, err
	}
	if err := t.mark(m, false); err != nil {
		return false, err
	}
	return true, t.moveNew(d, name, t.Objects, strconv.Itoa(i))
}

// bringAll moves taken objects back to the upper directory, except those that the project still has.
func (t *Tx) bringAll() error {
	if !t.Begun || t.Objects == nil || !slices.ContainsFunc(t.Journal.Moves, func(m Move) bool { return m.Taken }) {
		return nil
	}
	errs := []error{t.Flush()}
	for i, m := range t.Journal.Moves {
		if m.Taken && errs[0] == nil {
			if err := t.bring(i, m); err != nil {
				errs = append(errs, t.moveError(i, err))
			}
		}
	}
	return errors.Join(append(errs, t.retimeUpper())...)
}

func (t *Tx) bring(i int, m Move) error {
	n, obj := t.Journal.Nodes[m.First], strconv.Itoa(i)
	d, name, err := t.upper(n)
	if err != nil {
		return err
	}
	defer d.Close()
	st, found, err := d.LstatIf(name)
	if err != nil {
		return err
	}
	got, have, err := t.Objects.LstatIf(obj)
	if err != nil {
		return err
	}
	if !have || !n.New.is(got) {
		if found && n.New.is(st) { // it never left, or was brought before
			return t.mark(m, true)
		}
		return nil // it is still in the project, or somebody removed it
	}
	own, err := t.pristine(t.stageTree(0, t.Objects), obj, m)
	switch {
	case err != nil:
		return err
	case found && !own:
		return nil // as bringCopy left it
	case found:
		return errors.New("the session has something else there")
	case !own:
		return t.bringCopy(m, obj, d, name)
	}
	return tree.InTurn(func() error { return t.moveNew(t.Objects, obj, d, name) }, func() error { return t.mark(m, true) })
}

// bringCopy is bring for an object that somebody changed in the project. The object stays in the transaction, which is
// kept aside, and the session gets a copy of the session's part of it.
func (t *Tx) bringCopy(m Move, obj string, d *tree.Handle, name string) error {
	const suffix = ".back"
	if err := tree.RemoveTree(t.Objects, obj+suffix); err != nil {
		return err
	}
	src := t.stageTree(0, t.Objects)
	k := tree.Copier{Ctx: context.Background(), Lax: true, Special: tree.IsRoot()}
	defer k.Close()
	for _, n := range t.Journal.Nodes[m.First:m.End] {
		below := strings.TrimPrefix(string(n.Path), string(t.Journal.Nodes[m.First].Path))
		dir, base := tree.SplitPath(obj + below)
		at, _ := tree.SplitPath(obj + suffix + below)
		err := func() error {
			from, err := src.At(dir)
			if err != nil {
				return err
			}
			defer from.Close()
			st, found, err := from.Lstat(base)
			if err != nil || !found || st.Typ() != n.New.Mode&unix.S_IFMT {
				return err
			}
			to, err := t.Objects.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			defer to.Close()
			_, err = k.Object(from, base, st, t.Objects, obj+suffix+below, to)
			return err
		}()
		if err != nil && err != unix.ENOENT && !tree.Swapped(err) {
			return err
		}
	}
	return tree.InTurn(k.FinishDirs, k.Flush.Wait, func() error { return t.moveNew(t.Objects, obj+suffix, d, name) })
}

// dropCopies removes what bringCopy left in the session, if the undo did not succeed: the next one makes it again, of
// what is in the project then.
func (t *Tx) dropCopies() error {
	for i, m := range t.Journal.Moves {
		if !m.Taken || t.Objects == nil {
			continue
		}
		n := t.Journal.Nodes[m.First]
		now, found := t.look(store.Place{Root: n.Root, Path: string(n.Path)})
		if !found || !n.New.is(now) {
			continue // it may be the only one
		}
		err := func() error {
			d, name, err := t.upper(n)
			if err == unix.ENOENT {
				return nil // the session was discarded since
			}
			if err != nil {
				return err
			}
			defer d.Close()
			if st, found, err := d.LstatIf(name); err != nil || !found || n.New.is(st) {
				return err
			}
			return tree.RemoveTree(d, name)
		}()
		if err != nil {
			return t.moveError(i, err)
		}
	}
	return nil
}

// retimeUpper restores the times of the directories in the upper directory from which something was taken.
func (t *Tx) retimeUpper() error {
	if !t.Begun {
		return nil
	}
	took := map[store.Place]bool{}
	for _, m := range t.Journal.Moves {
		if m.Taken {
			n := t.Journal.Nodes[m.First]
			dir, _ := tree.SplitPath(string(n.Path))
			took[store.Place{Root: n.Root, Path: dir}] = true
		}
	}
	times := t.times
	if times == nil {
		times = t.Journal.Times
	}
	for _, r := range times {
		if !took[store.Place{Root: r.Root, Path: string(r.Path)}] {
			continue
		}
		d, err := t.s.Dir.Open(tree.JoinPath(store.UpperName(r.Root), string(r.Path)), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		err = d.SetMtime(unix.Timespec(r.After))
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
