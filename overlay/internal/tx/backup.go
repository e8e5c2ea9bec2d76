//go:build linux

package tx

import (
	"io/fs"
	"strconv"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// backUp copies the old objects whose stage is removed at the end of the transaction.
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
		err = sys.Syncfs(int(copies.FD))
	}
	if err == nil {
		err = c.findStays(&k)
	}
	if err != nil {
		return &fs.PathError{Op: "back up", Path: c.Tx.s.Path, Err: err}
	}
	return nil
}

// findStays looks for other names, in the project, of files that were backed up. That needs
// a walk through the project, but is seldom necessary.
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
		skip := "" // a directory that is moved
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
				s := Stay{Root: i, Path: store.Text(f.Path), File: identify(f.Stat), Copy: store.Text(first.Path)}
				t.Journal.Stays = append(t.Journal.Stays, s)
				if !c.Changed(store.Place{Root: i, Path: f.Path}, f.Stat) {
					c.stays = append(c.stays, s)
				}
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
