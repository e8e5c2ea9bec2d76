//go:build linux

package overlay

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

// An item is something that a transaction is to put into the project, or to take out of it.
type item struct {
	tree.Diff
	root   int
	kind   string // of change
	runs   string // why it is executed later; empty: it is not
	staged string // the digest of what is staged, of an index of git
	merged []byte // the content of a file that both sides changed; nil: the session's
}

// A side is a root, as a writer needs it: what the session has, and what the project has.
type side struct {
	up, low  tree.Tree
	base     store.Root
	dev      uint64
	stiff    bool // on overlayfs: directories cannot be renamed
	replaced bool // the root is not the directory that the session was made for

	last   tree.Dir // of up
	lastAt string
}

// source opens a directory of the session. It belongs to l and is good until the next
// call.
func (l *side) source(path string) (tree.Dir, error) {
	if l.last != nil && l.lastAt == path {
		return l.last, nil
	}
	if l.last != nil {
		l.last.Close()
		l.last = nil
	}
	d, err := l.up.At(path)
	if err != nil {
		return nil, err
	}
	l.last, l.lastAt = d, path
	return d, nil
}

func (l *side) close() {
	if l.last != nil {
		l.last.Close()
	}
	l.up.Close()
	l.low.Close()
}

// A writer makes everything new of a transaction, and plans what is moved where.
type writer struct {
	tx      *tx
	items   []item // in path order
	sides   []side // by root; borrowed
	twins   []map[tree.Inode]tree.Twin
	changed func(at store.Place, st tree.Stat) bool // somebody changed it since the session began
	special bool                                    // setuid bits and the like are copied too

	progress func(made int, bytes int64) // nil: nobody wants to know

	planned []item // what the journal's nodes are made of
	copier  tree.Copier
	apart   map[store.Place]bool // directories that objects cannot be renamed to from elsewhere
	made    int

	lastDst   *tree.Handle // the directory in a stage that was written to last
	lastDstAt string
}

func (c *writer) close() {
	c.copier.Close()
	c.lastDst.Close()
}

func (c *writer) abs(at store.Place) string { return filepath.Join(c.tx.s.roots[at.Root], at.Path) }

// stage makes everything new where it can be renamed from, backs up what could not be
// renamed to where it is safe, and plans the moves. What can fail for want of space,
// rights or time fails here; in the project nothing but stages is made. What is to be on
// disk then is in the copier's flusher.
func (c *writer) stage(ctx context.Context) error {
	t := c.tx
	c.copier = tree.Copier{Ctx: ctx, Special: c.special, Many: len(c.items) > tree.FsyncMost}
	if err := c.plan(); err != nil {
		return err
	}
	if err := t.makeStages(c.apart); err != nil {
		return err
	}
	c.copier.Inherit = len(t.staged) > 0
	for i, m := range t.j.Moves {
		for k := m.First; k < m.End; k++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.make(i, k); err != nil {
				n := c.planned[k]
				return &fs.PathError{Op: "copy", Path: c.abs(store.Place{Root: n.root, Path: n.At}), Err: err}
			}
			if c.made++; c.progress != nil {
				c.progress(c.made, c.copier.Bytes)
			}
		}
	}
	c.retimed()
	if err := c.copier.FinishDirs(); err != nil {
		return err
	}
	if err := c.backUp(); err != nil {
		return err
	}
	if c.copier.Many {
		return c.flush()
	}
	for _, h := range t.stages {
		if err := c.copier.Flush.AddDir(h, "."); err != nil {
			return &fs.PathError{Op: "flush", Path: c.tx.s.path, Err: err}
		}
	}
	return nil
}

// retimed corrects the identities of new names of files that get another time.
func (c *writer) retimed() {
	after := map[uint64]int64{}
	for _, r := range c.tx.j.Times {
		after[r.Ino] = r.After
	}
	for i := range c.tx.j.Nodes {
		n := &c.tx.j.Nodes[i]
		if ns, ok := after[n.New.Ino]; ok && n.New.Mtime != 0 {
			n.New.Mtime = ns
		}
	}
}

// plan fills in the journal, but for the identities of what is not made yet.
func (c *writer) plan() error {
	t := c.tx
	touched := map[store.Place]bool{}
	for i := 0; i < len(c.items); i++ {
		n := c.items[i]
		// A file with other names gets its time alone only if it is another file then, as
		// it was in the sandbox.
		if n.TimeOnly && (n.Low.IsDir() || n.Low.Nlink == 1) {
			if err := c.touch(store.Place{Root: n.root, Path: n.At}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			c.note(jnode{Root: n.root, Path: store.Text(n.At)}, n)
			continue
		}
		j := jnode{Kind: n.kind, Root: n.root, Path: store.Text(n.At), Runs: n.runs}
		if n.HasLow {
			j.Old = identify(n.Low)
		}
		if n.HasLow {
			j.Clean = !c.changed(store.Place{Root: n.root, Path: n.At}, n.Low)
			j.Below, j.Newest = n.Inside, n.Newest
		}
		if n.HasUp && !n.Up.IsDir() {
			j.Upper = n.Up.Ctime
		}
		first := c.note(j, n)
		if n.HasUp && n.HasLow && n.Up.IsDir() && n.Low.IsDir() {
			a, err := c.regard(n)
			if err != nil {
				return &fs.PathError{Op: "read attributes", Path: c.abs(store.Place{Root: n.root, Path: n.At}), Err: err}
			}
			a.Node = first
			t.j.Attrs = append(t.j.Attrs, a)
			if err := c.touch(store.Place{Root: n.root, Path: n.At}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			continue
		}
		if n.At == "." {
			return &fs.PathError{Op: "commit", Path: c.tx.s.roots[n.root], Err: tree.ErrMoved}
		}
		dir, _ := tree.SplitPath(n.At)
		if err := c.touchDir(store.Place{Root: n.root, Path: dir}, touched); err != nil {
			return err
		}
		if n.HasLow && n.Low.IsDir() && c.sides[n.root].stiff {
			if err := c.empty(first, n); err != nil {
				return &fs.PathError{Op: "look at", Path: c.abs(store.Place{Root: n.root, Path: n.At}), Err: err}
			}
			if !n.HasUp {
				continue
			}
			// What takes the directory's place finds nothing there.
			first = c.note(jnode{Root: n.root, Path: store.Text(n.At)}, n)
		}
		m := move{First: first, End: first + 1}
		if n.HasUp && n.Up.IsDir() {
			for i+1 < len(c.items) && c.items[i+1].root == n.root && tree.Under(c.items[i+1].At, n.At) {
				i++
				in := c.items[i]
				j := jnode{Kind: in.kind, Root: in.root, Path: store.Text(in.At), Runs: in.runs}
				if !in.Up.IsDir() {
					j.Upper = in.Up.Ctime
				}
				c.note(j, in)
				m.End++
			}
		}
		t.j.Moves = append(t.j.Moves, m)
	}
	return nil
}

// note adds an object to the journal, and returns its number.
func (c *writer) note(j jnode, n item) int {
	if j.Kind != "" {
		j.Staged = n.staged
	}
	c.tx.j.Nodes = append(c.tx.j.Nodes, j)
	c.planned = append(c.planned, n)
	return len(c.planned) - 1
}

// empty plans the removal of a directory that cannot be renamed: what is in it is moved,
// and then it is removed, and all directories in it before.
func (c *writer) empty(first int, n item) error {
	t := c.tx
	dirs := []int{first}
	_, err := tree.WalkBelow(c.sides[n.root].low, n.At, func(f tree.Found) bool {
		in := item{root: n.root, Diff: tree.Diff{Low: f.Stat, HasLow: true}}
		in.At = f.Path
		k := c.note(jnode{Root: n.root, Path: store.Text(f.Path), Old: identify(f.Stat)}, in)
		if f.Stat.IsDir() {
			dirs = append(dirs, k)
		} else {
			t.j.Moves = append(t.j.Moves, move{First: k, End: k + 1})
		}
		return true
	})
	for _, k := range slices.Backward(dirs) {
		if err != nil {
			break
		}
		var e *emptied
		if e, err = c.emptied(store.Place{Root: n.root, Path: string(t.j.Nodes[k].Path)}); err == nil {
			t.j.Moves = append(t.j.Moves, move{First: k, End: k + 1, Dir: e})
		}
	}
	return err
}

// emptied reads what a directory is to be made again with.
func (c *writer) emptied(at store.Place) (*emptied, error) {
	d, err := c.tx.readable(at)
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
	return &emptied{access{Mode: st.Perm(), UID: st.UID, GID: st.GID, Xattrs: x.Raw()}, st.Mtime.Nano()}, nil
}

// touchDir notes that the entries of a directory change, and what its time is to be.
func (c *writer) touchDir(at store.Place, touched map[store.Place]bool) error {
	if touched[at] {
		return nil
	}
	fail := func(err error) error { return &fs.PathError{Op: "open", Path: c.abs(at), Err: err} }
	if _, err := c.tx.doors.open(at); err != nil {
		return fail(err)
	}
	low := c.tx.doors.lastStat
	up, err := c.sides[at.Root].source(at.Path)
	if err != nil {
		return fail(err)
	}
	st, err := up.Stat()
	if err != nil {
		return fail(err)
	}
	if c.sides[at.Root].dev != low.Dev {
		// A subvolume: renaming into it works from within only.
		c.apart[store.Place{Root: at.Root, Path: at.Path}] = true
	}
	return c.touch(at, low, st.Mtime.Nano(), touched)
}

// touch notes that an object that stays gets a modification time.
func (c *writer) touch(at store.Place, low tree.Stat, after int64, touched map[store.Place]bool) error {
	if touched[at] {
		return nil
	}
	touched[at] = true
	c.tx.j.Times = append(c.tx.j.Times, retime{
		Root: at.Root, Path: store.Text(at.Path), Ino: low.Ino,
		Before: low.Mtime.Nano(), After: after, Clean: !c.changed(at, low),
	})
	return nil
}

// make makes the new object of node k, which belongs to move i.
func (c *writer) make(i, k int) error {
	t := c.tx
	n := c.planned[k]
	m := t.j.Moves[i]
	if !n.HasUp || m.Dir != nil {
		return nil
	}
	st := t.stage(m)
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
	t.j.Nodes[k].New = identify(made)
	if n.Up.IsReg() && n.Up.Perm()&0o400 == 0 && !tree.IsRoot() {
		// Opening it took another mode for the moment, and that another ctime.
		if st, ok := c.now(n); ok && st.Same(n.Up) {
			t.j.Nodes[k].Upper = st.Ctime
		}
	}
	return nil
}

// now looks at the session's object again.
func (c *writer) now(n item) (tree.Stat, bool) {
	dir, name := tree.SplitPath(n.At)
	src, err := c.sides[n.root].source(dir)
	if err != nil {
		return tree.Stat{}, false
	}
	st, ok, err := src.Lstat(name)
	return st, ok && err == nil
}

func (c *writer) makeAt(n item, st *tree.Handle, path string, dst *tree.Handle) (tree.Stat, error) {
	_, to := tree.SplitPath(path)
	if n.merged != nil {
		return c.makeMerged(n, dst, to)
	}
	if n.Up.IsReg() && n.Up.Nlink > 1 {
		if made, ok, err := c.twin(n, st, path, dst, to); ok || err != nil {
			return made, err
		}
	}
	dir, name := tree.SplitPath(n.At)
	src, err := c.sides[n.root].source(dir)
	if err != nil {
		return tree.Stat{}, err
	}
	return c.copier.Object(src, name, n.Up, st, path, dst)
}

// twin makes a new name of a file of the project: what the command linked to is as it
// was. If the project has more names for it, those were not linked in the sandbox.
func (c *writer) twin(n item, st *tree.Handle, path string, dst *tree.Handle, to string) (tree.Stat, bool, error) {
	id := tree.Inode{Dev: n.Up.Dev, Ino: n.Up.Ino}
	if _, ok := c.copier.Links[id]; ok {
		return tree.Stat{}, false, nil
	}
	w, ok := c.twins[n.root][id]
	if !ok || w.Low.Nlink != 1 {
		return tree.Stat{}, false, nil
	}
	made, ok, err := tree.LinkTo(c.tx.low[n.root], w.Path, dst, to)
	if !ok {
		return tree.Stat{}, false, err
	}
	if !made.Same(w.Low) {
		return tree.Stat{}, false, tree.ErrMoved
	}
	// The link gives the file a new ctime, which is no sign of a conflict, and both
	// names have one time.
	known := slices.ContainsFunc(c.tx.j.Times, func(r retime) bool { return r.Root == n.root && string(r.Path) == w.Path })
	if err := c.touch(store.Place{Root: n.root, Path: w.Path}, w.Low, n.Up.Mtime.Nano(), map[store.Place]bool{{Root: n.root, Path: w.Path}: known}); err != nil {
		return tree.Stat{}, false, err
	}
	if c.copier.Links == nil {
		c.copier.Links = map[tree.Inode]tree.Copied{}
	}
	c.copier.Links[id] = tree.Copied{Dir: st, Path: path, Ino: made.Ino, Nlink: n.Up.Nlink}
	return made, true, nil
}

func (c *writer) makeMerged(n item, dst *tree.Handle, to string) (tree.Stat, error) {
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
	if err := tree.WriteFull(t, n.merged, 0); err != nil {
		return tree.Stat{}, err
	}
	dir, name := tree.SplitPath(n.At)
	src, err := c.sides[n.root].source(dir)
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
	made, err := c.copier.Finish(t, n.Up)
	if err != nil {
		return tree.Stat{}, err
	}
	keep = true
	return made, c.copier.Flush.AddFile(t)
}

// regard reads what changes of a directory that stays.
func (c *writer) regard(n item) (regard, error) {
	up, err := c.sides[n.root].source(n.At)
	if err != nil {
		return regard{}, err
	}
	r := regard{
		Before: access{Mode: n.Low.Perm(), UID: n.Low.UID, GID: n.Low.GID},
		After:  access{Mode: n.Up.Perm(), UID: n.Up.UID, GID: n.Up.GID},
	}
	if n.At == "." {
		// Only what the sandboxed command changed: the upper directory may not have
		// had the project's owner to begin with. Extended attributes are not
		// compared.
		b := c.sides[n.root].base
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
		r.Base = &access{Mode: b.Mode, UID: b.UID, GID: b.GID}
		return r, nil
	}
	x, err := up.Xattrs()
	if err != nil {
		return regard{}, err
	}
	low, err := c.tx.readable(store.Place{Root: n.root, Path: n.At})
	if err != nil {
		return regard{}, err
	}
	defer low.Close()
	y, err := low.Xattrs()
	if err != nil {
		return regard{}, err
	}
	if maps.Equal(x, y) {
		r.Before.Keep, r.After.Keep = true, true
		return r, nil
	}
	r.Before.Xattrs, r.After.Xattrs = y.Raw(), x.Raw()
	return r, nil
}

// backUp copies old objects whose stage goes with the end of the transaction.
func (c *writer) backUp() error {
	t := c.tx
	var copies *tree.Handle
	defer func() { copies.Close() }()
	k := tree.Copier{Ctx: c.copier.Ctx, Lax: true, Special: tree.IsRoot(), Many: c.copier.Many, Names: map[tree.Inode]int{}}
	defer k.Close()
	for i, m := range t.j.Moves {
		n := c.planned[m.First]
		if m.Stage == 0 || m.Dir != nil || t.j.Nodes[m.First].Old.Ino == 0 {
			continue
		}
		if copies == nil {
			err := t.dir.Mkdir(copiesName)
			if err == nil {
				copies, err = t.dir.OpenDir(copiesName)
			}
			if err != nil {
				return &fs.PathError{Op: "back up", Path: c.tx.s.path, Err: err}
			}
		}
		dir, name := tree.SplitPath(n.At)
		err := func() error {
			src, err := t.readable(store.Place{Root: n.root, Path: dir})
			if err != nil {
				return err
			}
			defer src.Close()
			return k.Tree(src, name, n.Low, copies, strconv.Itoa(i))
		}()
		if err != nil {
			return &fs.PathError{Op: "back up", Path: c.abs(store.Place{Root: n.root, Path: n.At}), Err: err}
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
		return &fs.PathError{Op: "back up", Path: c.tx.s.path, Err: err}
	}
	return nil
}

// findStays looks for names that stay in the project of files that were backed up under
// others. That takes a walk through the project, and is seldom needed.
func (c *writer) findStays(k *tree.Copier) error {
	t := c.tx
	wanted := map[tree.Inode]tree.Copied{}
	for id, first := range k.Links {
		if uint64(k.Names[id]) < first.Nlink {
			wanted[id] = first
		}
	}
	moved := map[store.Place]bool{}
	for _, m := range t.j.Moves {
		if n := t.j.Nodes[m.First]; n.Old.Ino != 0 {
			moved[store.Place{Root: n.Root, Path: string(n.Path)}] = true
		}
	}
	for i := range c.sides {
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
				t.j.Stays = append(t.j.Stays, stay{Root: i, Path: store.Text(f.Path), File: identify(f.Stat), Copy: store.Text(first.Path)})
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

// flush waits until the file systems that were written to have written it.
func (c *writer) flush() error {
	t := c.tx
	for _, h := range append([]*tree.Handle{t.objects}, t.stages...) {
		if err := sys.Retry(func() error { return unix.Syncfs(int(h.FD)) }); err != nil {
			return &fs.PathError{Op: "flush", Path: c.tx.s.path, Err: err}
		}
	}
	return nil
}
