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

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Somebody may use the project at the same moment, so that somebody's objects prevent a transaction, or get into its
// stage. Those are never removed: a stage is removed only if the transaction itself made everything in it.

const keptPrefix = "kept-"

// strange reports whether a stage has anything that the transaction did not make, or that somebody changed since.
func (t *Tx) strange() (bool, error) {
	if t.Journal == nil || !t.Begun {
		return false, nil // nothing of the project was moved
	}
	for k, st := range append([]*tree.Handle{t.Objects}, t.stages...) {
		if st == nil {
			continue
		}
		names, err := st.Names()
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if own, err := t.own(k, st, name); err != nil || !own {
				return !own, err
			}
		}
	}
	return false, nil
}

// own reports whether an object in the stage k is the transaction's own.
func (t *Tx) own(k int, st *tree.Handle, name string) (bool, error) {
	number, _, spared := strings.Cut(name, ".")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(t.Journal.Moves) || t.Journal.Moves[i].Stage != k {
		return false, nil
	}
	m := t.Journal.Moves[i]
	n := t.Journal.Nodes[m.First]
	if n.New.Ino == 0 || spared && name != spare(number) {
		return false, nil
	}
	return t.pristine(t.stageTree(k, st), name, m)
}

// pristine reports whether the object name of a stage, and everything in it, is what the transaction made for a move.
// Something may be missing, because removing a stage may have been interrupted.
func (t *Tx) pristine(stage *tree.Real, name string, m Move) (bool, error) {
	top := t.Journal.Nodes[m.First]
	now, err := stage.H.Lstat(name)
	if err != nil || !t.made(top.New, now) {
		return false, err
	}
	if !now.IsDir() {
		return true, nil
	}
	made := map[string]Ident{}
	for _, n := range t.Journal.Nodes[m.First+1 : m.End] {
		made[name+strings.TrimPrefix(string(n.Path), string(top.Path))] = n.New
	}
	same := true
	_, err = tree.WalkBelow(stage, name, func(f tree.Found) bool {
		id, ok := made[f.Path]
		same = ok && t.made(id, f.Stat)
		return same
	})
	return same, err
}

// made reports whether st is a new object, unchanged. If it is a link to a file of the
// project, it may have the times of that file.
func (t *Tx) made(id Ident, st tree.Stat) bool {
	if id.same(st) || !id.is(st) || id.Size != st.Size {
		return id.same(st)
	}
	return slices.ContainsFunc(t.Journal.Times, func(r Retime) bool {
		return r.Ino == id.Ino && (r.Before == Moment(st.Mtime) || r.After == Moment(st.Mtime))
	})
}

// keepAside renames a transaction that is not in force, and keeps everything in its stages.
func (t *Tx) keepAside() error {
	if err := t.keepStages(); err != nil {
		return err
	}
	top, err := t.s.Dir.OpenDir(Name)
	if err != nil {
		return err
	}
	defer top.Close()
	for k := 0; ; k++ {
		name := keptPrefix + strconv.Itoa(t.N)
		if k > 0 {
			name += "." + strconv.Itoa(k)
		}
		err := t.moveNew(top, strconv.Itoa(t.N), top, name)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return err
		}
		t.aside = name
		return t.s.Book.Unmark()
	}
}

// ErrAside is wrapped by the error of an undo, or of a commit that was taken back, that had
// to keep somebody else's changes.
var ErrAside = errors.New("changes that another program made meanwhile are kept in the session's directory")

// Aside lists the directories in which a session keeps somebody else's changes.
func Aside(dir *tree.Handle) ([]string, error) {
	names, err := below(dir)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, keptPrefix) })
	slices.Sort(names)
	return names, err
}

// HasAside reports whether the session in dir keeps somebody else's changes.
func HasAside(dir *tree.Handle) (bool, error) {
	names, err := Aside(dir)
	return len(names) > 0, err
}

// keepStages copies what is in the stages of projects to the transaction's directory.
func (t *Tx) keepStages() error {
	for i, h := range t.stages {
		if h == nil {
			continue
		}
		name := "stage-" + strconv.Itoa(i)
		if err := tree.RemoveTree(t.dir, name); err != nil {
			return err
		}
		src := &tree.Real{H: h}
		top, err := src.Top()
		if err != nil {
			return err
		}
		st, err := top.Stat()
		if err == nil {
			k := tree.Copier{Ctx: context.Background(), Lax: true, Special: tree.IsRoot()}
			if err = k.Tree(top, ".", st, t.dir, name); err == nil {
				err = tree.InTurn(k.FinishDirs, k.Flush.Wait)
			}
			k.Close()
		}
		top.Close()
		if err != nil {
			return &fs.PathError{Op: "keep", Path: t.s.Path, Err: err}
		}
	}
	return t.DropStages()
}

// below returns the names in the directory of transactions in dir. Nil: there is none.
func below(dir *tree.Handle) ([]string, error) {
	d, err := dir.OpenDir(Name)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Names()
}
