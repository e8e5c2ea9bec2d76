//go:build linux

package tx

import (
	"io/fs"
	"maps"
	"slices"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// plan fills in the journal, except the identities of objects that are not made yet.
func (c *Writer) plan() error {
	t := c.Tx
	for i := 0; i < len(c.Items); i++ {
		n := c.Items[i]
		// If a file has other names, only this name gets the new time, as in the sandbox: it becomes
		// another file.
		if n.TimeOnly && (n.Low.IsDir() || n.Low.Nlink == 1) {
			if err := c.touch(store.Place{Root: n.Root, Path: n.At}, n.Low, Moment(n.Up.Mtime)); err != nil {
				return err
			}
			c.addNode(Node{Root: n.Root, Path: store.Text(n.At)}, n)
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
		first := c.addNode(j, n)
		if n.HasUp && n.HasLow && n.Up.IsDir() && n.Low.IsDir() {
			a, err := c.regard(n)
			if err != nil {
				return &fs.PathError{Op: "read attributes", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
			}
			a.Node = first
			t.Journal.Attrs = append(t.Journal.Attrs, a)
			if err := c.touch(store.Place{Root: n.Root, Path: n.At}, n.Low, Moment(n.Up.Mtime)); err != nil {
				return err
			}
			continue
		}
		if n.At == "." {
			return &fs.PathError{Op: "commit", Path: c.Tx.s.Roots[n.Root], Err: tree.ErrMoved}
		}
		dir, _ := tree.SplitPath(n.At)
		if err := c.touchDir(store.Place{Root: n.Root, Path: dir}); err != nil {
			return err
		}
		if n.HasLow && n.Low.IsDir() && c.Sides[n.Root].Stiff {
			if err := c.empty(first, n); err != nil {
				return &fs.PathError{Op: "look at", Path: c.abs(store.Place{Root: n.Root, Path: n.At}), Err: err}
			}
			if !n.HasUp {
				continue
			}
			// The directory is gone when the new object takes its place.
			first = c.addNode(Node{Root: n.Root, Path: store.Text(n.At)}, n)
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
				c.addNode(j, in)
				m.End++
			}
		}
		t.Journal.Moves = append(t.Journal.Moves, m)
	}
	return nil
}

// addNode adds an object to the journal, and returns its number.
func (c *Writer) addNode(j Node, n Item) int {
	if j.Kind != "" {
		j.Staged = n.Staged
	}
	c.Tx.Journal.Nodes = append(c.Tx.Journal.Nodes, j)
	c.planned = append(c.planned, n)
	return len(c.planned) - 1
}

// empty plans the removal of a directory that cannot be renamed: the objects in it are
// moved, then the directories are removed, the innermost first.
func (c *Writer) empty(first int, n Item) error {
	t := c.Tx
	dirs := []int{first}
	_, err := tree.WalkBelow(c.Sides[n.Root].Low, n.At, func(f tree.Found) bool {
		in := Item{Root: n.Root, Diff: tree.Diff{Low: f.Stat, HasLow: true}}
		in.At = f.Path
		k := c.addNode(Node{Root: n.Root, Path: store.Text(f.Path), Old: identify(f.Stat), Clean: !c.Changed(store.Place{Root: n.Root, Path: f.Path}, f.Stat)}, in)
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

// emptied reads the attributes with which a directory can be made again.
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
		return nil, unix.EPERM // an undo could not give it its owner
	}
	x, err := d.Xattrs()
	if err != nil {
		return nil, err
	}
	return &Emptied{Access{Mode: st.Perm(), UID: st.UID, GID: st.GID, Xattrs: x.Raw()}, Moment(st.Mtime)}, nil
}

// touchDir notes that the entries of a directory change, and which time it gets.
func (c *Writer) touchDir(at store.Place) error {
	if c.entered[at] { // not touched: that may be for a change of the directory itself, which does not check the device
		return nil
	}
	if c.entered == nil {
		c.entered = make(map[store.Place]bool)
	}
	c.entered[at] = true
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
		// A subvolume: only objects that are in it can be renamed within it.
		c.Apart[store.Place{Root: at.Root, Path: at.Path}] = true
	}
	return c.touch(at, low, Moment(st.Mtime))
}

// touch notes that an object that stays gets a modification time.
func (c *Writer) touch(at store.Place, low tree.Stat, after Moment) error {
	if c.touched[at] {
		return nil
	}
	if c.touched == nil {
		c.touched = make(map[store.Place]bool)
	}
	c.touched[at] = true
	if !low.IsDir() {
		if c.retimes == nil {
			c.retimes = make(map[rootFile]Moment)
		}
		c.retimes[rootFile{at.Root, low.Ino}] = after
	}
	c.Tx.Journal.Times = append(c.Tx.Journal.Times, Retime{
		Root: at.Root, Path: store.Text(at.Path), Ino: low.Ino,
		Before: Moment(low.Mtime), After: after, Clean: !c.Changed(at, low),
	})
	return nil
}

// regard reads which attributes of a directory change.
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
		// Only what the sandboxed command changed: the upper directory may have had another owner than the
		// project from the beginning. Extended attributes are not compared.
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
	x = c.Tx.low[n.Root].Taken(x)
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

// retimed corrects the identities of new names of files that get another time.
func (c *Writer) retimed() {
	for i := range c.Tx.Journal.Nodes {
		n := &c.Tx.Journal.Nodes[i]
		if at, ok := c.retimes[rootFile{n.Root, n.New.Ino}]; ok && n.New.Mtime != (Moment{}) {
			n.New.Mtime = at
		}
	}
}
