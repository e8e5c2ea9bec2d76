//go:build linux

package tx

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/gitindex"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"golang.org/x/sys/unix"
)

// Undone records that the transaction is no longer in force.
func (t *Tx) Undone() error {
	var l Ledger
	l.Load(t.s.Meta())
	t.noteBack(&l)
	if err := tree.InTurn(func() error { return t.noteCopies(&l) }, func() error { return t.NoteDoors(&l) }); err != nil {
		return err
	}
	m := *t.s.Meta()
	m.Done = m.Done[:len(m.Done)-1]
	l.Save(&m)
	if m.State == store.Committed {
		m.State = store.Kept
	}
	m.Roots = slices.Clone(m.Roots)
	for _, a := range t.Journal.Attrs {
		if n := t.Journal.Nodes[a.Node]; n.Path == "." && a.Base != nil {
			m.Roots[n.Root].Mode, m.Roots[n.Root].UID, m.Roots[n.Root].GID = a.Base.Mode, a.Base.UID, a.Base.GID
		}
	}
	if err := t.s.SetMeta(&m, new(tree.Flusher)); err != nil {
		return &fs.PathError{Op: "write session's data", Path: t.s.Path, Err: err}
	}
	return nil
}

// SinceThen looks for objects of the commit that were changed after it. They are conflicts; with Force, they are kept
// aside. equal reports whether an object in a directory of the project is equal to the session's.
func (t *Tx) SinceThen(ctx context.Context, note func(store.Place) bool, equal func(store.Place, tree.Dir, tree.Stat) bool) error {
	objects, err := t.Objects.Stat()
	if err != nil {
		return &fs.PathError{Op: "look at", Path: t.s.Path, Err: err}
	}
	// When the commit had put everything into place. After a crash, it may have caused later changes, too.
	ended, disowned := objects.Ctime, false
	var list []Clash
	add := func(n Node, path, why string, now tree.Stat, found bool) {
		k := Clash{Root: t.s.Roots[n.Root], Path: path, Why: why, Kind: n.Kind}
		if found {
			k.Project = &now
		}
		if n.New.Ino != 0 && path == string(n.Path) {
			k.Session = &tree.Stat{Mode: n.New.Mode, Size: n.New.Size, Mtime: unix.Timespec(n.New.Mtime)}
		}
		list = append(list, k)
	}
	made, inside := t.Journal.made()
	for i, m := range t.Journal.Moves {
		for k := m.First; k < m.End; k++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := t.Journal.Nodes[k]
			at := store.Place{Root: n.Root, Path: string(n.Path)}
			now, found := t.look(at)
			// A taken object goes back to the session as it is.
			if found && !m.Taken && n.New.Unchanged(now) && now.Ctime > ended && !t.equals(at, now, equal) {
				n.New.Foreign, t.Journal.Nodes[k].New.Foreign, disowned = true, true, true
			}
			switch {
			case found && now.IsReg() && !n.New.Unchanged(now) && note(at):
				if k == m.First {
					t.asIs = append(t.asIs, i)
				}
			case found && !n.New.Unchanged(now) && t.refreshed(n, now):
				t.Journal.Nodes[k].New = identify(now)
			case m.Dir != nil && found && made[at].is(now): // the object that took its place has its own turn
			case n.New.Ino == 0 && found:
				add(n, at.Path, whyMadeThen, now, true)
			case n.New.Ino == 0:
			case !found:
				add(n, at.Path, whyGoneThen, now, false)
			case !n.New.Unchanged(now):
				add(n, at.Path, whyThen, now, true)
			case now.IsDir():
				names, err := t.readDir(at)
				if err != nil {
					return &fs.PathError{Op: "list", Path: t.abs(n), Err: err}
				}
				for _, name := range names {
					if !inside[at][name] {
						p := tree.JoinPath(at.Path, name)
						now, found := t.look(store.Place{Root: n.Root, Path: p})
						add(n, p, whyMadeThen, now, found)
					}
				}
			}
		}
	}
	if err := t.attrsSinceThen(add); err != nil {
		return err
	}
	t.keepNewTimes()
	if len(list) == 0 {
		return nil
	}
	if !t.Force {
		return &ClashError{list}
	}
	if disowned { // a recovery after a crash has to keep it, too
		if err := t.Seal(nil); err != nil {
			return &fs.PathError{Op: "write journal", Path: t.s.Path, Err: err}
		}
	}
	return nil
}

// keepNewTimes makes t keep the times of directories that somebody changed since the commit.
func (t *Tx) keepNewTimes() {
	t.times = slices.Clone(t.Journal.Times)
	t.Journal.Times = slices.DeleteFunc(t.Journal.Times, func(r Retime) bool {
		now, found := t.look(store.Place{Root: r.Root, Path: string(r.Path)})
		return found && now.IsDir() && Moment(now.Mtime) != r.After
	})
}

// attrsSinceThen adds the directories whose attributes were changed since the commit changed them.
func (t *Tx) attrsSinceThen(add func(n Node, path, why string, now tree.Stat, found bool)) error {
	for _, a := range t.Journal.Attrs {
		n := t.Journal.Nodes[a.Node]
		now, found := t.look(store.Place{Root: n.Root, Path: string(n.Path)})
		if !found {
			add(n, string(n.Path), whyGoneThen, now, false)
		} else if !a.After.of(now) && !a.Before.of(now) { // before: its file system ignored the change
			add(n, string(n.Path), whyThen, now, true)
		} else if same, err := t.hasXattrs(n, a.After); err != nil {
			return &fs.PathError{Op: "read attributes", Path: t.abs(n), Err: err}
		} else if !same {
			add(n, string(n.Path), whyThen, now, true)
		}
	}
	return nil
}

// equals opens the directory for equal. now has the mode and owner that the commit left.
func (t *Tx) equals(at store.Place, now tree.Stat, equal func(store.Place, tree.Dir, tree.Stat) bool) bool {
	dir, _ := tree.SplitPath(at.Path)
	d, err := t.readable(store.Place{Root: at.Root, Path: dir})
	if err != nil {
		return false
	}
	defer d.Close()
	return equal(at, d, now)
}

// made returns the new objects, and the names of those that are in new directories.
func (j *Journal) made() (made map[store.Place]Ident, inside map[store.Place]map[string]bool) {
	made, inside = map[store.Place]Ident{}, map[store.Place]map[string]bool{}
	for _, n := range j.Nodes {
		if n.New.Ino == 0 {
			continue
		}
		made[store.Place{Root: n.Root, Path: string(n.Path)}] = n.New
		dir, name := tree.SplitPath(string(n.Path))
		at := store.Place{Root: n.Root, Path: dir}
		if inside[at] == nil {
			inside[at] = map[string]bool{}
		}
		inside[at][name] = true
	}
	return made, inside
}

// IndexMost is the size, in bytes, up to which an index of git is read. That of a million files is smaller.
const IndexMost = 128 << 20

// refreshed reports whether an index of git was replaced by another one in which the same is staged.
func (t *Tx) refreshed(n Node, now tree.Stat) bool {
	if n.Staged == "" || !now.IsReg() || n.New.Mode != now.Mode || n.New.UID != now.UID || n.New.GID != now.GID || now.Size > IndexMost {
		return false
	}
	low := &tree.Real{H: t.low[n.Root]}
	data, err := tree.Read(low, string(n.Path), now)
	if err != nil {
		return false
	}
	x, err := gitindex.Parse(data)
	return err == nil && x.Digest() == n.Staged
}

// hasXattrs reports whether a directory has the extended attributes that it was given.
func (t *Tx) hasXattrs(n Node, want Access) (bool, error) {
	if want.Keep {
		return true, nil
	}
	d, err := t.readable(store.Place{Root: n.Root, Path: string(n.Path)})
	if err != nil {
		return false, err
	}
	defer d.Close()
	x, err := d.Xattrs()
	if err != nil || len(x) != len(want.Xattrs) {
		return false, err
	}
	if w, ok := t.Doors.widened[store.Place{Root: n.Root, Path: string(n.Path)}]; ok {
		x.SetOwner(w.mode)
	}
	for name, v := range want.Xattrs {
		if w, ok := x[name]; !ok || w != string(v) {
			return false, nil
		}
	}
	return true, nil
}

const (
	whyThen     = "was changed in the project since the commit"
	whyMadeThen = "was created in the project since the commit"
	whyGoneThen = "was removed from the project since the commit"
)

// Restage copies backups to new stages, for roots on other file systems than the session's.
func (t *Tx) Restage(ctx context.Context) error {
	lost := map[int]bool{} // moves whose stage is gone
	for i, m := range t.Journal.Moves {
		if m.Stage != 0 && t.Stage(m) == nil {
			lost[i] = true
			t.Journal.Moves[i].Stage = 0
		}
	}
	if len(lost) == 0 {
		return nil
	}
	copies, err := t.dir.Open(copiesName, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "undo", Path: t.s.Path, Err: err}
	}
	src := t.ownTree(copies, copiesName)
	defer src.Close()
	apart, err := t.subvolumes()
	if err != nil {
		return err
	}
	if err := t.makeStages(apart); err != nil {
		return err
	}
	k := tree.Copier{Ctx: ctx, Lax: true, Special: tree.IsRoot(), Inherit: true, Links: t.stays(copies)}
	defer k.Close()
	for i, m := range t.Journal.Moves {
		n := &t.Journal.Nodes[m.First]
		if !lost[i] || n.Old.Ino == 0 || m.Dir != nil {
			continue
		}
		if now, ok := t.look(store.Place{Root: n.Root, Path: string(n.Path)}); ok && n.Old.is(now) {
			continue // it was never moved
		}
		err := func() error {
			top, err := src.Top()
			if err != nil {
				return err
			}
			defer top.Close()
			st, ok, err := top.Lstat(strconv.Itoa(i))
			if err != nil || !ok {
				return cmp.Or[error](err, unix.ENOENT)
			}
			if err := k.Tree(top, strconv.Itoa(i), st, t.Stage(m), strconv.Itoa(i)); err != nil {
				return err
			}
			if err := tree.InTurn(k.FinishDirs, k.Flush.Wait); err != nil {
				return err
			}
			made, err := t.Stage(m).Lstat(strconv.Itoa(i))
			n.Old = identify(made)
			return err
		}()
		if err != nil {
			return &fs.PathError{Op: "put back", Path: t.abs(*n), Err: err}
		}
	}
	var restaged tree.Flusher
	defer restaged.Close()
	for _, h := range t.stages {
		if h == nil {
			continue
		}
		if err := restaged.AddDir(h, "."); err != nil {
			return &fs.PathError{Op: "flush", Path: t.s.Path, Err: err}
		}
	}
	if err := t.Seal(&restaged); err != nil {
		return &fs.PathError{Op: "write journal", Path: t.s.Path, Err: err}
	}
	return nil
}

// subvolumes are the directories into which something is moved and that are on another
// device than their root. Only objects that are in them can be renamed within them.
func (t *Tx) subvolumes() (map[store.Place]bool, error) {
	apart := map[store.Place]bool{}
	for _, m := range t.Journal.Moves {
		n := t.Journal.Nodes[m.First]
		dir, _ := tree.SplitPath(string(n.Path))
		at := store.Place{Root: n.Root, Path: dir}
		if _, err := t.Doors.open(at); err == unix.ENOENT || tree.Swapped(err) {
			continue // it is made again first
		} else if err != nil {
			return nil, &fs.PathError{Op: "open", Path: t.abs(n), Err: err}
		}
		root, err := t.low[n.Root].Stat()
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: t.abs(n), Err: err}
		}
		if t.Doors.lastStat.Dev != root.Dev {
			apart[at] = true
		}
	}
	return apart, nil
}

// stays finds the copies that need not be made, because another name of the same file is unchanged in the project.
func (t *Tx) stays(copies *tree.Handle) map[tree.Inode]tree.Copied {
	links := map[tree.Inode]tree.Copied{}
	for _, s := range t.Journal.Stays {
		now, found := t.look(store.Place{Root: s.Root, Path: string(s.Path)})
		for _, r := range t.Journal.Times { // the commit may have given it another time
			if r.Root == s.Root && r.Path == s.Path && r.After == Moment(now.Mtime) {
				now.Mtime = unix.Timespec(r.Before)
			}
		}
		if !found || !s.File.Unchanged(now) {
			continue
		}
		dir, name := tree.SplitPath(string(s.Copy))
		d, err := copies.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		if st, err := d.Lstat(name); err == nil {
			links[tree.Inode{Dev: st.Dev, Ino: st.Ino}] = tree.Copied{Dir: t.low[s.Root], Path: string(s.Path), Ino: now.Ino, Nlink: st.Nlink}
		}
		d.Close()
	}
	return links
}
