//go:build linux

package overlay

import (
	"io/fs"
	"slices"
	"strconv"
)

// Committed returns what the session's commits did to the project, those that were not
// taken back: root after root, in path order. It is what the journals say; the project may
// have been changed since.
func (s *Session) Committed() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil {
		return nil, &Error{Op: "read journal", Path: s.path, Err: fs.ErrClosed}
	}
	var list []Change
	for _, n := range s.meta.Done {
		data, err := s.dir.readFile(txName+"/"+strconv.Itoa(n)+"/"+journalName, metaMost)
		var j *journal
		if err == nil {
			j, err = decodeJournal(data, len(s.roots))
		}
		if err != nil {
			return nil, &Error{Op: "read journal", Path: s.path, Err: err}
		}
		list = append(list, j.changes(s.roots)...)
	}
	index := map[string]int{}
	for i, r := range s.roots {
		index[r.Path] = i
	}
	slices.SortStableFunc(list, func(a, b Change) int {
		if a.Root != b.Root {
			return index[a.Root] - index[b.Root]
		}
		return comparePaths(a.Path, b.Path)
	})
	return list, nil
}

// changes are what the transaction was made of.
func (j *journal) changes(roots []Root) (list []Change) {
	for i, n := range j.Nodes {
		if n.Kind == 0 {
			continue
		}
		old := stat{mode: n.Old.Mode, size: n.Old.Size}
		now := stat{mode: n.New.Mode, size: n.New.Size}
		for _, a := range j.Attrs {
			if a.Node == i {
				now.mode = old.typ() | a.After.Mode
			}
		}
		if n.New.Ino == 0 && now.mode == 0 { // it was deleted, or its place was taken later
			now = old
		}
		c := Change{Kind: n.Kind, Root: roots[n.Root].Path, Path: string(n.Path), Mode: now.fileMode(), Below: n.Below, Runs: n.Runs}
		if now.isReg() {
			c.Size = now.size
		}
		if n.Old.Ino != 0 {
			c.OldMode = old.fileMode()
			if old.isReg() {
				c.OldSize = old.size
			}
		}
		list = append(list, c)
	}
	return slices.Clip(list)
}
