//go:build linux

package overlay

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// Committed returns the changes that the session's commits made to the project, except commits that were undone: root
// after root, in path order. It reads the journals; the project may have changed since.
func (s *Session) Committed() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, &Error{Op: "read journal", Path: s.path, Err: fs.ErrClosed}
	}
	var list []Change
	for _, n := range s.meta.Done {
		data, err := s.dir.ReadFile(tx.Name+"/"+strconv.Itoa(n)+"/"+tx.JournalName, store.MetaMost)
		var j *tx.Journal
		if err == nil {
			j, err = tx.DecodeJournal(data, len(s.roots))
		}
		if err != nil {
			return nil, &Error{Op: "read journal", Path: s.path, Err: err}
		}
		list = append(list, changesDone(j, s.roots)...)
	}
	index := map[string]int{}
	for i, r := range s.roots {
		index[r.Path] = i
	}
	slices.SortStableFunc(list, func(a, b Change) int {
		if a.Root != b.Root {
			return index[a.Root] - index[b.Root]
		}
		return paths.Compare(a.Path, b.Path)
	})
	return list, nil
}

func changesDone(j *tx.Journal, roots []Root) (list []Change) {
	modes := make(map[int]uint32, len(j.Attrs)) // that were changed, by node
	for _, a := range j.Attrs {
		modes[a.Node] = a.After.Mode
	}
	for i, n := range j.Nodes {
		if n.Kind == "" {
			continue
		}
		old := tree.Stat{Mode: n.Old.Mode, Size: n.Old.Size}
		now := tree.Stat{Mode: n.New.Mode, Size: n.New.Size}
		if mode, ok := modes[i]; ok {
			now.Mode = old.Typ() | mode
		}
		if n.New.Ino == 0 && now.Mode == 0 { // it was deleted, or its place was taken later
			now = old
		}
		c := Change{Kind: kindNamed(n.Kind), Root: roots[n.Root].Path, Path: string(n.Path), Mode: now.FileMode(), Below: n.Below, Runs: n.Runs}
		if now.IsReg() {
			c.Size = now.Size
		}
		if n.Old.Ino != 0 {
			c.OldMode = old.FileMode()
			if old.IsReg() {
				c.OldSize = old.Size
			}
		}
		list = append(list, c)
	}
	return slices.Clip(list)
}

// Aside returns the directories in which the session keeps files that somebody else had changed in the project when a
// commit was undone by force, or rolled back after a crash. Clean does not remove such sessions unless they are named.
func (s *Session) Aside() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, &Error{Op: "look at", Path: s.path, Err: fs.ErrClosed}
	}
	names, err := tx.Aside(s.dir)
	if err != nil {
		return nil, &Error{Op: "look at", Path: s.path, Err: err}
	}
	for i, name := range names {
		names[i] = filepath.Join(s.path, tx.Name, name, tx.ObjectsName)
	}
	return names, nil
}
