//go:build linux

package tx

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An Item is something that a transaction is to put into the project, or to take out of it.
type Item struct {
	tree.Diff
	Root   int
	Kind   string // of change
	Runs   string // why it is executed later; empty: it is not
	Staged string // the digest of what is staged, of an index of git
	Merged []byte // the content of a file that both sides changed; nil: the session's
}

// A Side is a root, as a writer needs it: what the session has, and what the project has.
type Side struct {
	Up, Low  tree.Tree
	Base     store.Root
	Dev      uint64
	Stiff    bool // on overlayfs: directories cannot be renamed
	Replaced bool // the root is not the directory that the session was made for

	last   tree.Dir // of up
	lastAt string
}

// Source opens a directory of the session. It belongs to l and is good until the next
// call.
func (l *Side) Source(path string) (tree.Dir, error) {
	if l.last != nil && l.lastAt == path {
		return l.last, nil
	}
	if l.last != nil {
		l.last.Close()
		l.last = nil
	}
	d, err := l.Up.At(path)
	if err != nil {
		return nil, err
	}
	l.last, l.lastAt = d, path
	return d, nil
}

func (l *Side) Close() {
	if l.last != nil {
		l.last.Close()
	}
	l.Up.Close()
	l.Low.Close()
}

// A Writer makes everything new of a transaction, and plans what is moved where.
type Writer struct {
	Tx      *Tx
	Items   []Item // in path order
	Sides   []Side // by root; borrowed
	Twins   []map[tree.Inode]tree.Twin
	Changed func(at store.Place, st tree.Stat) bool // somebody changed it since the session began
	Special bool                                    // setuid bits and the like are copied too

	Progress func(made int, bytes int64) // nil: nobody wants to know

	planned []Item // what the journal's nodes are made of
	Copier  tree.Copier
	Apart   map[store.Place]bool // directories that objects cannot be renamed to from elsewhere
	made    int

	lastDst   *tree.Handle // the directory in a stage that was written to last
	lastDstAt string
}

func (c *Writer) Close() {
	c.Copier.Close()
	c.lastDst.Close()
}

func (c *Writer) abs(at store.Place) string { return filepath.Join(c.Tx.s.Roots[at.Root], at.Path) }

// Stage makes everything new where it can be renamed from, backs up what could not be
// renamed to where it is safe, and plans the moves. What can fail for want of space,
// rights or time fails here; in the project nothing but stages is made. What is to be on
// disk then is in the copier's flusher.
func (c *Writer) Stage(ctx context.Context) error {
	t := c.Tx
	c.Copier = tree.Copier{Ctx: ctx, Special: c.Special, Many: len(c.Items) > tree.FsyncMost}
	if err := c.plan(); err != nil {
		return err
	}
	if err := t.makeStages(c.Apart); err != nil {
		return err
	}
	c.Copier.Inherit = len(t.staged) > 0
	for i, m := range t.Journal.Moves {
		for k := m.First; k < m.End; k++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.make(i, k); err != nil {
				n := c.planned[k]
				return &fs.PathError{Op: "copy", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
			}
			if c.made++; c.Progress != nil {
				c.Progress(c.made, c.Copier.Bytes)
			}
		}
	}
	c.retimed()
	if err := c.Copier.FinishDirs(); err != nil {
		return err
	}
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

// retimed corrects the identities of new names of files that get another time.
func (c *Writer) retimed() {
	after := map[uint64]int64{}
	for _, r := range c.Tx.Journal.Times {
		after[r.Ino] = r.After
	}
	for i := range c.Tx.Journal.Nodes {
		n := &c.Tx.Journal.Nodes[i]
		if ns, ok := after[n.New.Ino]; ok && n.New.Mtime != 0 {
			n.New.Mtime = ns
		}
	}
}

// plan fills in the journal, but for the identities of what is not made yet.
func (c *Writer) plan() error {
	t := c.Tx
	touched := map[store.Place]bool{}
	for i := 0; i < len(c.Items); i++ {
		n := c.Items[i]
		// A file with other names gets its time alone only if it is another file then, as
		// it was in the sandbox.
		if n.TimeOnly && (n.Low.IsDir() || n.Low.Nlink == 1) {
			if err := c.touch(store.Place{Root: n.Root, Path: n.At}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			c.Note(Node{Root: n.Root, Path: store.Text(n.At)}, n)
			continue
		}
		j := Node{Kind: n.Kind, Root: n.Root, Path: store.Text(n.At), Runs: n.Runs}
		if n.HasLow {
			j.Old = identify(n.Low)
		}
		if n.HasLow {
			j.Clean = !c.Changed(store.Place{Root: n.Root, Path: n.At}, n.Low)
			j.Below, j.Newest = n.Inside, n.Newest
		}
		if n.HasUp && !n.Up.IsDir() {
			j.Upper = n.Up.Ctime
		}
		first := c.Note(j, n)
		if n.HasUp && n.HasLow && n.Up.IsDir() && n.Low.IsDir() {
			a, err := c.regard(n)
			if err != nil {
				return &fs.PathError{Op: "read attributes", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
			}
			a.Node = first
			t.Journal.Attrs = append(t.Journal.Attrs, a)
			if err := c.touch(store.Place{Root: n.Root, Path: n.At}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			continue
		}
		if n.At == "." {
			return &fs.PathError{Op: "commit", Path: c.Tx.s.Roots[n.Root], Err: tree.ErrMoved}
		}
		dir, _ := tree.SplitPath(n.At)
		if err := c.touchDir(store.Place{Root: n.Root, Path: dir}, touched); err != nil {
			return err
		}
		if n.HasLow && n.Low.IsDir() && c.Sides[n.Root].Stiff {
			if err := c.empty(first, n); err != nil {
				return &fs.PathError{Op: "look at", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
			}
			if !n.HasUp {
				continue
			}
			// What takes the directory's place finds nothing there.
			first = c.Note(Node{Root: n.Root, Path: store.Text(n.At)}, n)
		}
		m := Move{First: first, End: first + 1}
		if n.HasUp && n.Up.IsDir() {
			for i+1 < len(c.Items) && c.Items[i+1].Root == n.Root && tree.Under(c.Items[i+1].At, n.At) {
				i++
				in := c.Items[i]
				j := Node{Kind: in.Kind, Root: in.Root, Path: store.Text(in.At), Runs: in.Runs}
				if !in.Up.IsDir() {
					j.Upper = in.Up.Ctime
				}
				c.Note(j, in)
				m.End++
			}
		}
		t.Journal.Moves = append(t.Journal.Moves, m)
	}
	return nil
}

// Note adds an object to the journal, and returns its number.
func (c *Writer) Note(j Node, n Item) int {
	if j.Kind != "" {
		j.Staged = n.Staged
	}
	c.Tx.Journal.Nodes = append(c.Tx.Journal.Nodes, j)
	c.planned = append(c.planned, n)
	return len(c.planned) - 1
}

// empty plans the removal of a directory that cannot be renamed: what is in it is moved,
// and then it is removed, and all directories in it before.
func (c *Writer) empty(first int, n Item) error {
	t := c.Tx
	dirs := []int{first}
	_, err := tree.WalkBelow(c.Sides[n.Root].Low, n.At, func(f tree.Found) bool {
		in := Item{Root: n.Root, Diff: tree.Diff{Low: f.Stat, HasLow: true}}
		in.At = f.Path
		k := c.Note(Node{Root: n.Root, Path: store.Text(f.Path), Old: identify(f.Stat)}, in)
		if f.Stat.IsDir() {
			dirs = append(dirs, k)
		} else {
			t.Journal.Moves = append(t.Journal.Moves, Move{First: k, End: k + 1})
		}
		return true
	})
	for _, k := range slices.Backward(dirs) {
		if err != nil {
			break
		}
		var e *Emptied
		if e, err = c.emptied(store.Place{Root: n.Root, Path: string(t.Journal.Nodes[k].Path)}); err == nil {
			t.Journal.Moves = append(t.Journal.Moves, Move{First: k, End: k + 1, Dir: e})
		}
	}
	return err
}

// emptied reads what a directory is to be made again with.
func (c *Writer) emptied(at store.Place) (*Emptied, error) {
	d, err := c.Tx.readable(at)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return nil, err
	}
	if !tree.IsRoot() && !st.Owned() {
		return nil, unix.EPERM // it could not be given to its owner again
	}
	x, err := d.Xattrs()
	if err != nil {
		return nil, err
	}
	return &Emptied{Access{Mode: st.Perm(), UID: st.UID, GID: st.GID, Xattrs: x.Raw()}, st.Mtime.Nano()}, nil
}

// touchDir notes that the entries of a directory change, and what its time is to be.
func (c *Writer) touchDir(at store.Place, touched map[store.Place]bool) error {
	if touched[at] {
		return nil
	}
	fail := func(err error) error { return &fs.PathError{Op: "open", Path: c.abs(at), Err: err} }
	if _, err := c.Tx.Doors.open(at); err != nil {
		return fail(err)
	}
	low := c.Tx.Doors.lastStat
	up, err := c.Sides[at.Root].Source(at.Path)
	if err != nil {
		return fail(err)
	}
	st, err := up.Stat()
	if err != nil {
		return fail(err)
	}
	if c.Sides[at.Root].Dev != low.Dev {
		// A subvolume: renaming into it works from within only.
		c.Apart[store.Place{Root: at.Root, Path: at.Path}] = true
	}
	return c.touch(at, low, st.Mtime.Nano(), touched)
}

// touch notes that an object that stays gets a modification time.
func (c *Writer) touch(at store.Place, low tree.Stat, after int64, touched map[store.Place]bool) error {
	if touched[at] {
		return nil
	}
	touched[at] = true
	c.Tx.Journal.Times = append(c.Tx.Journal.Times, Retime{
		Root: at.Root, Path: store.Text(at.Path), Ino: low.Ino,
		Before: low.Mtime.Nano(), After: after, Clean: !c.Changed(at, low),
	})
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
		// Opening it took another mode for the moment, and that another ctime.
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
	if n.Up.IsReg() && n.Up.Nlink > 1 {
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

// twin makes a new name of a file of the project: what the command linked to is as it
// was. If the project has more names for it, those were not linked in the sandbox.
func (c *Writer) twin(n Item, st *tree.Handle, path string, dst *tree.Handle, to string) (tree.Stat, bool, error) {
	id := tree.Inode{Dev: n.Up.Dev, Ino: n.Up.Ino}
	if _, ok := c.Copier.Links[id]; ok {
		return tree.Stat{}, false, nil
	}
	w, ok := c.Twins[n.Root][id]
	if !ok || w.Low.Nlink != 1 {
		return tree.Stat{}, false, nil
	}
	made, ok, err := tree.LinkTo(c.Tx.low[n.Root], w.Path, dst, to)
	if !ok {
		return tree.Stat{}, false, err
	}
	if !made.Same(w.Low) {
		return tree.Stat{}, false, tree.ErrMoved
	}
	// The link gives the file a new ctime, which is no sign of a conflict, and both
	// names have one time.
	known := slices.ContainsFunc(c.Tx.Journal.Times, func(r Retime) bool { return r.Root == n.Root && string(r.Path) == w.Path })
	if err := c.touch(store.Place{Root: n.Root, Path: w.Path}, w.Low, n.Up.Mtime.Nano(), map[store.Place]bool{{Root: n.Root, Path: w.Path}: known}); err != nil {
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
	if err := t.SetXattrs(x); err != nil {
		return tree.Stat{}, err
	}
	made, err := c.Copier.Finish(t, n.Up)
	if err != nil {
		return tree.Stat{}, err
	}
	keep = true
	return made, c.Copier.Flush.AddFile(t)
}

// regard reads what changes of a directory that stays.
func (c *Writer) regard(n Item) (Regard, error) {
	up, err := c.Sides[n.Root].Source(n.At)
	if err != nil {
		return Regard{}, err
	}
	r := Regard{
		Before: Access{Mode: n.Low.Perm(), UID: n.Low.UID, GID: n.Low.GID},
		After:  Access{Mode: n.Up.Perm(), UID: n.Up.UID, GID: n.Up.GID},
	}
	if n.At == "." {
		// Only what the sandboxed command changed: the upper directory may not have
		// had the project's owner to begin with. Extended attributes are not
		// compared.
		b := c.Sides[n.Root].Base
		if n.Up.Perm() == b.Mode {
			r.After.Mode = r.Before.Mode
		}
		if n.Up.UID == b.UID {
			r.After.UID = r.Before.UID
		}
		if n.Up.GID == b.GID {
			r.After.GID = r.Before.GID
		}
		r.Before.Keep, r.After.Keep = true, true
		r.Base = &Access{Mode: b.Mode, UID: b.UID, GID: b.GID}
		return r, nil
	}
	x, err := up.Xattrs()
	if err != nil {
		return Regard{}, err
	}
	low, err := c.Tx.readable(store.Place{Root: n.Root, Path: n.At})
	if err != nil {
		return Regard{}, err
	}
	defer low.Close()
	y, err := low.Xattrs()
	if err != nil {
		return Regard{}, err
	}
	if maps.Equal(x, y) {
		r.Before.Keep, r.After.Keep = true, true
		return r, nil
	}
	r.Before.Xattrs, r.After.Xattrs = y.Raw(), x.Raw()
	return r, nil
}

// backUp copies old objects whose stage goes with the end of the transaction.
func (c *Writer) backUp() error {
	t := c.Tx
	var copies *tree.Handle
	defer func() { copies.Close() }()
	k := tree.Copier{Ctx: c.Copier.Ctx, Lax: true, Special: tree.IsRoot(), Many: c.Copier.Many, Names: map[tree.Inode]int{}}
	defer k.Close()
	for i, m := range t.Journal.Moves {
		n := c.planned[m.First]
		if m.Stage == 0 || m.Dir != nil || t.Journal.Nodes[m.First].Old.Ino == 0 {
			continue
		}
		if copies == nil {
			err := t.dir.Mkdir(copiesName)
			if err == nil {
				copies, err = t.dir.OpenDir(copiesName)
			}
			if err != nil {
				return &fs.PathError{Op: "back up", Path: c.Tx.s.Path, Err: err}
			}
		}
		dir, name := tree.SplitPath(n.At)
		err := func() error {
			src, err := t.readable(store.Place{Root: n.Root, Path: dir})
			if err != nil {
				return err
			}
			defer src.Close()
			return k.Tree(src, name, n.Low, copies, strconv.Itoa(i))
		}()
		if err != nil {
			return &fs.PathError{Op: "back up", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
		}
	}
	if copies == nil {
		return nil
	}
	err := tree.InTurn(k.FinishDirs, func() error { return k.Flush.AddDir(copies, ".") }, k.Flush.Wait)
	if err == nil && k.Many {
		err = unix.Syncfs(int(copies.FD))
	}
	if err == nil {
		err = c.findStays(&k)
	}
	if err != nil {
		return &fs.PathError{Op: "back up", Path: c.Tx.s.Path, Err: err}
	}
	return nil
}

// findStays looks for names that stay in the project of files that were backed up under
// others. That takes a walk through the project, and is seldom needed.
func (c *Writer) findStays(k *tree.Copier) error {
	t := c.Tx
	wanted := map[tree.Inode]tree.Copied{}
	for id, first := range k.Links {
		if uint64(k.Names[id]) < first.Nlink {
			wanted[id] = first
		}
	}
	moved := map[store.Place]bool{}
	for _, m := range t.Journal.Moves {
		if n := t.Journal.Nodes[m.First]; n.Old.Ino != 0 {
			moved[store.Place{Root: n.Root, Path: string(n.Path)}] = true
		}
	}
	for i := range c.Sides {
		if len(wanted) == 0 {
			break
		}
		skip := "" // what is in a directory that is moved
		_, err := tree.WalkBelow(t.reader(i), ".", func(f tree.Found) bool {
			if skip != "" && tree.Under(f.Path, skip) {
				return true
			}
			if moved[store.Place{Root: i, Path: f.Path}] {
				skip = f.Path
				return true
			}
			id := tree.Inode{Dev: f.Stat.Dev, Ino: f.Stat.Ino}
			if first, ok := wanted[id]; ok && !f.Stat.IsDir() {
				t.Journal.Stays = append(t.Journal.Stays, Stay{Root: i, Path: store.Text(f.Path), File: identify(f.Stat), Copy: store.Text(first.Path)})
				delete(wanted, id)
			}
			return len(wanted) > 0
		})
		if err != nil && err != unix.EACCES {
			return err
		}
	}
	return nil
}

// Flush waits until the file systems that were written to have written it.
func (c *Writer) Flush() error {
	t := c.Tx
	for _, h := range append([]*tree.Handle{t.Objects}, t.stages...) {
		if err := sys.Retry(func() error { return unix.Syncfs(int(h.FD)) }); err != nil {
			return &fs.PathError{Op: "flush", Path: c.Tx.s.Path, Err: err}
		}
	}
	return nil
}
