//go:build linux

package tx

import (
	"context"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Stage plans the moves, makes all new objects in stages, and copies old objects that cannot be renamed to the session.
// Everything that can fail for lack of space, permission or time fails here, while only stages were made in the
// project. The caller flushes the copier's flusher.
func (c *Writer) Stage(ctx context.Context) error {
	t := c.Tx
	c.Copier = tree.Copier{Ctx: ctx, Project: true, Special: c.Special, Many: len(c.Items) > tree.FsyncMost}
	if err := c.plan(); err != nil {
		return err
	}
	if err := t.makeStages(c.Apart); err != nil {
		return err
	}
	if err := t.checkNumbers(); err != nil {
		return err
	}
	c.Copier.Inherit = len(t.staged) > 0
	for i := range t.Journal.Moves {
		if err := c.makeMove(i); err != nil {
			return err
		}
	}
	for _, n := range t.Journal.Nodes {
		if n.reused() {
			return t.conflict(n, whyNow)
		}
	}
	c.retimed()
	if err := c.Copier.FinishDirs(); err != nil {
		return err
	}
	c.noteUnlike()
	if err := c.backUp(); err != nil {
		return err
	}
	if c.Copier.Many {
		return c.Flush()
	}
	for _, h := range t.stages {
		if err := c.Copier.Flush.AddDir(h, "."); err != nil {
			return &fs.PathError{Op: "flush", Path: c.Tx.s.Path, Err: err}
		}
	}
	return nil
}

// noteUnlike notes new directories as they are, where their file system did not give them their modes and owners.
// Otherwise an undo would take them for changed by somebody else.
func (c *Writer) noteUnlike() {
	t := c.Tx
	at := map[string]tree.Unlike{}
	for _, u := range c.Copier.Unlike {
		at[u.Path] = u // it begins with the number of a move
	}
	for i, m := range t.Journal.Moves {
		for k := m.First; k < m.End && len(at) > 0; k++ {
			path := strconv.Itoa(i) + strings.TrimPrefix(c.planned[k].At, c.planned[m.First].At)
			if u, ok := at[path]; ok && u.Dir == t.Stage(m) && u.Made.Ino == t.Journal.Nodes[k].New.Ino {
				t.Journal.Nodes[k].New = identify(u.Made)
			}
		}
	}
}

func (c *Writer) makeMove(i int) error {
	m := c.Tx.Journal.Moves[i]
	k := m.First
	fail := func(err error) error {
		n := c.planned[k]
		return &fs.PathError{Op: "copy", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
	}
	if err := c.Copier.Ctx.Err(); err != nil {
		return err
	}
	if taken, err := c.take(i); err != nil {
		return fail(err)
	} else if taken {
		return nil
	}
	for ; k < m.End; k++ {
		if err := c.Copier.Ctx.Err(); err != nil {
			return err
		}
		if err := c.make(i, k); err != nil {
			return fail(err)
		}
		c.progress()
	}
	return nil
}

// make makes the new object of node k, which belongs to move i.
func (c *Writer) make(i, k int) error {
	t := c.Tx
	n := c.planned[k]
	m := t.Journal.Moves[i]
	if !n.HasUp || m.Dir != nil {
		return nil
	}
	st := t.Stage(m)
	path := strconv.Itoa(i) + strings.TrimPrefix(n.At, c.planned[m.First].At)
	dst := st
	if dir, _ := tree.SplitPath(path); dir != "." {
		if c.lastDst == nil || c.lastDstAt != dir {
			c.lastDst.Close()
			c.lastDst = nil
			d, err := st.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
			if err != nil {
				return err
			}
			c.lastDst, c.lastDstAt = d, dir
		}
		dst = c.lastDst
	}
	made, err := c.makeAt(n, st, path, dst)
	if err != nil {
		return err
	}
	t.Journal.Nodes[k].New = identify(made)
	if n.Up.IsReg() && n.Up.Perm()&0o400 == 0 && !tree.IsRoot() {
		// It had another mode while it was opened, which changed its ctime.
		if st, ok := c.now(n); ok && st.Same(n.Up) {
			t.Journal.Nodes[k].Upper = st.Ctime
		}
	}
	return nil
}

// now looks at the session's object again.
func (c *Writer) now(n Item) (tree.Stat, bool) {
	dir, name := tree.SplitPath(n.At)
	src, err := c.Sides[n.Root].Source(dir)
	if err != nil {
		return tree.Stat{}, false
	}
	st, ok, err := src.Lstat(name)
	return st, ok && err == nil
}

func (c *Writer) makeAt(n Item, st *tree.Handle, path string, dst *tree.Handle) (tree.Stat, error) {
	_, to := tree.SplitPath(path)
	if n.Merged != nil {
		return c.makeMerged(n, dst, to)
	}
	if !n.Up.IsDir() && n.Up.Nlink > 1 {
		if made, ok, err := c.twin(n, st, path, dst, to); ok || err != nil {
			return made, err
		}
	}
	dir, name := tree.SplitPath(n.At)
	src, err := c.Sides[n.Root].Source(dir)
	if err != nil {
		return tree.Stat{}, err
	}
	return c.Copier.Object(src, name, n.Up, st, path, dst)
}

// twin links to a file of the project, if the command linked to that file and did not change
// it. The new name is then a link to all names of the file, as outside a sandbox.
func (c *Writer) twin(n Item, st *tree.Handle, path string, dst *tree.Handle, to string) (tree.Stat, bool, error) {
	id := tree.Inode{Dev: n.Up.Dev, Ino: n.Up.Ino}
	if _, ok := c.Copier.Links[id]; ok {
		return tree.Stat{}, false, nil
	}
	w, ok := c.Twins[n.Root][id]
	if !ok || w.Low.Nlink > 1 && w.Low.Mtime != n.Up.Mtime { // with another time it is another file: see plan
		return tree.Stat{}, false, nil
	}
	made, ok, err := tree.LinkTo(c.Tx.low[n.Root], w.Path, dst, to)
	if err == unix.EACCES { // its owner may not look up names in its directory
		dir, name := tree.SplitPath(w.Path)
		var d *tree.Handle
		if d, err = c.Tx.Doors.open(store.Place{Root: n.Root, Path: dir}); err == nil {
			made, ok, err = tree.LinkIn(d, name, dst, to)
		}
	}
	if !ok {
		return tree.Stat{}, false, err
	}
	if !made.Same(w.Low) {
		return tree.Stat{}, false, tree.ErrMoved
	}
	// The link gives the file a new ctime, which must not be a conflict, and both names have one time.
	at := store.Place{Root: n.Root, Path: w.Path}
	if !c.Changed(at, w.Low) {
		c.linked = append(c.linked, file{at, w.Low.Ino})
	}
	if err := c.touch(at, w.Low, Moment(n.Up.Mtime)); err != nil {
		return tree.Stat{}, false, err
	}
	if c.Copier.Links == nil {
		c.Copier.Links = map[tree.Inode]tree.Copied{}
	}
	c.Copier.Links[id] = tree.Copied{Dir: st, Path: path, Ino: made.Ino, Nlink: n.Up.Nlink}
	return made, true, nil
}

func (c *Writer) makeMerged(n Item, dst *tree.Handle, to string) (tree.Stat, error) {
	t, err := dst.Create(to)
	if err != nil {
		return tree.Stat{}, err
	}
	keep := false
	defer func() {
		if !keep {
			t.Close()
		}
	}()
	if err := tree.WriteFull(t, n.Merged, 0); err != nil {
		return tree.Stat{}, err
	}
	dir, name := tree.SplitPath(n.At)
	src, err := c.Sides[n.Root].Source(dir)
	if err != nil {
		return tree.Stat{}, err
	}
	f, err := src.File(name, n.Up)
	if err != nil {
		return tree.Stat{}, err
	}
	defer f.Close()
	x, err := f.Xattrs()
	if err != nil {
		return tree.Stat{}, err
	}
	if err := t.GiveXattrs(x); err != nil {
		return tree.Stat{}, err
	}
	made, err := c.Copier.Finish(t, n.Up)
	if err != nil {
		return tree.Stat{}, err
	}
	keep = true
	return made, c.Copier.Flush.AddFile(t)
}

// Flush waits until the file systems that were written to have written it.
func (c *Writer) Flush() error {
	t := c.Tx
	for _, h := range append([]*tree.Handle{t.Objects}, t.stages...) {
		if err := sys.Syncfs(int(h.FD)); err != nil {
			return &fs.PathError{Op: "flush", Path: c.Tx.s.Path, Err: err}
		}
	}
	return nil
}
