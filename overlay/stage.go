//go:build linux

package overlay

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// stage makes everything new where it can be renamed from, backs up what could not be
// renamed to where it is safe, and plans the moves. What can fail for want of space,
// rights or time fails here; in the project nothing but stages is made. What is to be on
// disk then is in the copier's flusher.
func (c *commit) stage(ctx context.Context) error {
	t := c.tx
	c.copier = tree.Copier{Ctx: ctx, Special: c.o.AllowSpecial, Many: len(c.nodes) > tree.FsyncMost}
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
				return c.makeError(c.planned[k], err)
			}
			c.progress(1)
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
			return &Error{Op: "flush", Path: c.s.path, Err: err}
		}
	}
	return nil
}

// retimed corrects the identities of new names of files that get another time.
func (c *commit) retimed() {
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
func (c *commit) plan() error {
	t := c.tx
	touched := map[store.Place]bool{}
	for i := 0; i < len(c.nodes); i++ {
		n := c.nodes[i]
		// A file with other names gets its time alone only if it is another file then, as
		// it was in the sandbox.
		if n.TimeOnly && (n.Low.IsDir() || n.Low.Nlink == 1) {
			if err := c.touch(store.Place{Root: n.root, Path: n.Path}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			c.note(jnode{Root: n.root, Path: store.Text(n.Path)}, n)
			continue
		}
		j := jnode{Kind: n.Kind.String(), Root: n.root, Path: store.Text(n.Path), Runs: n.Runs}
		if n.HasLow {
			j.Old = identify(n.Low)
		}
		if n.HasLow {
			j.Clean = !c.changed(store.Place{Root: n.root, Path: n.Path}, n.Low)
			j.Below, j.Newest = n.Below, n.Newest
		}
		if n.HasUp && !n.Up.IsDir() {
			j.Upper = n.Up.Ctime
		}
		first := c.note(j, n)
		if n.HasUp && n.HasLow && n.Up.IsDir() && n.Low.IsDir() {
			a, err := c.regard(n)
			if err != nil {
				return &Error{Op: "read attributes", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
			}
			a.Node = first
			t.j.Attrs = append(t.j.Attrs, a)
			if err := c.touch(store.Place{Root: n.root, Path: n.Path}, n.Low, n.Up.Mtime.Nano(), touched); err != nil {
				return err
			}
			continue
		}
		if n.Path == "." {
			return &Error{Op: "commit", Path: n.Root, Err: ErrMoved}
		}
		dir, _ := tree.SplitPath(n.Path)
		if err := c.touchDir(store.Place{Root: n.root, Path: dir}, touched); err != nil {
			return err
		}
		if n.HasLow && n.Low.IsDir() && c.layers[n.root].stiff {
			if err := c.empty(first, n); err != nil {
				return &Error{Op: "look at", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
			}
			if !n.HasUp {
				continue
			}
			// What takes the directory's place finds nothing there.
			first = c.note(jnode{Root: n.root, Path: store.Text(n.Path)}, n)
		}
		m := move{First: first, End: first + 1}
		if n.HasUp && n.Up.IsDir() {
			for i+1 < len(c.nodes) && c.nodes[i+1].root == n.root && tree.Under(c.nodes[i+1].Path, n.Path) {
				i++
				in := c.nodes[i]
				j := jnode{Kind: in.Kind.String(), Root: in.root, Path: store.Text(in.Path), Runs: in.Runs}
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
func (c *commit) note(j jnode, n node) int {
	if j.Kind != "" && n.HasUp && c.s.gitFileAt(store.Place{Root: n.root, Path: n.Path}) == gitIndex {
		if x, err := c.indexOf(&n, true); err == nil && x != nil {
			j.Staged = x.Digest()
		}
	}
	c.tx.j.Nodes = append(c.tx.j.Nodes, j)
	c.planned = append(c.planned, n)
	return len(c.planned) - 1
}

// empty plans the removal of a directory that cannot be renamed: what is in it is moved,
// and then it is removed, and all directories in it before.
func (c *commit) empty(first int, n node) error {
	t := c.tx
	dirs := []int{first}
	_, err := tree.WalkBelow(c.layers[n.root].low, n.Path, func(f tree.Found) bool {
		in := node{root: n.root, Diff: tree.Diff{Low: f.Stat, HasLow: true}}
		in.Root, in.Path = n.Root, f.Path
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
func (c *commit) emptied(at store.Place) (*emptied, error) {
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
func (c *commit) touchDir(at store.Place, touched map[store.Place]bool) error {
	if touched[at] {
		return nil
	}
	fail := func(err error) error { return &Error{Op: "open", Path: c.abs(at), Err: err} }
	if _, err := c.tx.doors.open(at); err != nil {
		return fail(err)
	}
	low := c.tx.doors.lastStat
	up, err := c.layers[at.Root].source(at.Path)
	if err != nil {
		return fail(err)
	}
	st, err := up.Stat()
	if err != nil {
		return fail(err)
	}
	if c.layers[at.Root].dev != low.Dev {
		// A subvolume: renaming into it works from within only.
		c.apart[store.Place{Root: at.Root, Path: at.Path}] = true
	}
	return c.touch(at, low, st.Mtime.Nano(), touched)
}

// touch notes that an object that stays gets a modification time.
func (c *commit) touch(at store.Place, low tree.Stat, after int64, touched map[store.Place]bool) error {
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
func (c *commit) make(i, k int) error {
	t := c.tx
	n := c.planned[k]
	m := t.j.Moves[i]
	if !n.HasUp || m.Dir != nil {
		return nil
	}
	st := t.stage(m)
	path := strconv.Itoa(i) + strings.TrimPrefix(n.Path, c.planned[m.First].Path)
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
func (c *commit) now(n node) (tree.Stat, bool) {
	dir, name := tree.SplitPath(n.Path)
	src, err := c.layers[n.root].source(dir)
	if err != nil {
		return tree.Stat{}, false
	}
	st, ok, err := src.Lstat(name)
	return st, ok && err == nil
}

func (c *commit) makeAt(n node, st *tree.Handle, path string, dst *tree.Handle) (tree.Stat, error) {
	_, to := tree.SplitPath(path)
	if n.merged != nil {
		return c.makeMerged(n, dst, to)
	}
	if n.Up.IsReg() && n.Up.Nlink > 1 {
		if made, ok, err := c.twin(n, st, path, dst, to); ok || err != nil {
			return made, err
		}
	}
	dir, name := tree.SplitPath(n.Path)
	src, err := c.layers[n.root].source(dir)
	if err != nil {
		return tree.Stat{}, err
	}
	return c.copier.Object(src, name, n.Up, st, path, dst)
}

// twin makes a new name of a file of the project: what the command linked to is as it
// was. If the project has more names for it, those were not linked in the sandbox.
func (c *commit) twin(n node, st *tree.Handle, path string, dst *tree.Handle, to string) (tree.Stat, bool, error) {
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
		return tree.Stat{}, false, ErrMoved
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

func (c *commit) makeMerged(n node, dst *tree.Handle, to string) (tree.Stat, error) {
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
	dir, name := tree.SplitPath(n.Path)
	src, err := c.layers[n.root].source(dir)
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

func (c *commit) makeError(n node, err error) error {
	if special, ok := err.(*SpecialError); ok {
		return special
	}
	return &Error{Op: "copy", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
}

// regard reads what changes of a directory that stays.
func (c *commit) regard(n node) (regard, error) {
	up, err := c.layers[n.root].source(n.Path)
	if err != nil {
		return regard{}, err
	}
	r := regard{
		Before: access{Mode: n.Low.Perm(), UID: n.Low.UID, GID: n.Low.GID},
		After:  access{Mode: n.Up.Perm(), UID: n.Up.UID, GID: n.Up.GID},
	}
	if n.Path == "." {
		// Only what the sandboxed command changed: the upper directory may not have
		// had the project's owner to begin with. Extended attributes are not
		// compared.
		b := c.layers[n.root].base
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
	low, err := c.tx.readable(store.Place{Root: n.root, Path: n.Path})
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
func (c *commit) backUp() error {
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
				return &Error{Op: "back up", Path: c.s.path, Err: err}
			}
		}
		dir, name := tree.SplitPath(n.Path)
		err := func() error {
			src, err := t.readable(store.Place{Root: n.root, Path: dir})
			if err != nil {
				return err
			}
			defer src.Close()
			return k.Tree(src, name, n.Low, copies, strconv.Itoa(i))
		}()
		if err != nil {
			return &Error{Op: "back up", Path: c.abs(store.Place{Root: n.root, Path: n.Path}), Err: err}
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
		return &Error{Op: "back up", Path: c.s.path, Err: err}
	}
	return nil
}

// findStays looks for names that stay in the project of files that were backed up under
// others. That takes a walk through the project, and is seldom needed.
func (c *commit) findStays(k *tree.Copier) error {
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
	for i := range c.layers {
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
func (c *commit) flush() error {
	t := c.tx
	for _, h := range append([]*tree.Handle{t.objects}, t.stages...) {
		if err := sys.Retry(func() error { return unix.Syncfs(int(h.FD)) }); err != nil {
			return &Error{Op: "flush", Path: c.s.path, Err: err}
		}
	}
	return nil
}
