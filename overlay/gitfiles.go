//go:build linux

package overlay

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/gitindex"
	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// git rewrites some of its files although nothing changed that a user would call a change; git status often does. If
// both sides wrote such a file, that is no conflict if nsrun can interpret both versions.

// A gitFile is the kind of a git file that nsrun can interpret. The zero gitFile is any other file.
type gitFile uint8

const (
	gitIndex gitFile = iota + 1 // what is staged, and what git found when it looked at the files
	gitLog                      // of a reference: lines are added at its end
	gitNote                     // of the last command, which the next one writes over
)

// gitFileAt tells the kind of a file by its path. An index must also have the content of one.
func (s *Session) gitFileAt(at store.Place) gitFile {
	dir, name := tree.SplitPath(at.Path)
	inGit := func() bool {
		return strings.Contains(filepath.Join(s.roots[at.Root].Path, dir)+"/", ".git/")
	}
	switch name {
	case "index":
		return gitIndex // a git directory may have any name
	case "FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "gc.log":
		if inGit() {
			return gitNote
		}
	default:
		if elements := strings.Split(dir, "/"); slices.Contains(elements, "logs") && inGit() {
			return gitLog
		}
	}
	return 0
}

// isIndex reports whether data begins as an index does.
func isIndex(data []byte) bool { return bytes.HasPrefix(data, []byte(gitindex.Magic)) }

// While a command runs, git status outside may rewrite the repository's index at any moment. Git replaces the file, so
// a descriptor of the index from before the command is a version to merge with; it costs only the opening.

// indexesMost limits how many indexes are held for a root.
const indexesMost = 16

// holdIndexes opens the indexes that the session has not changed yet. The caller holds s.mu, or no other goroutine has
// s.
func (s *Session) holdIndexes() {
	s.dropIndexes()
	if s.meta.On != "" {
		return // what the command sees may be that session's
	}
	for i := range s.roots {
		low, err := s.root(i)
		if err != nil {
			continue
		}
		for _, path := range indexPaths(low, s.roots[i].Path) {
			if s.written(i, path) {
				continue
			}
			h, err := low.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
			if err != nil {
				continue
			}
			if s.indexes == nil {
				s.indexes = map[store.Place]*tree.Handle{}
			}
			s.indexes[store.Place{Root: i, Path: path}] = h
		}
	}
}

// indexPaths are the paths of a root's indexes: those of its repository and the submodules; or, if the root is a git
// directory, its own and those of the work trees that are linked to it.
func indexPaths(root *tree.Handle, path string) []string {
	list, dir := []string{".git/index"}, ".git/modules"
	if strings.HasSuffix(path, ".git") {
		list, dir = []string{"index"}, "worktrees"
	}
	d, err := root.OpenDir(dir)
	if err != nil {
		return list
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return list
	}
	for _, name := range names[:min(len(names), indexesMost)] {
		list = append(list, dir+"/"+name+"/index")
	}
	return list
}

// written reports whether a command of the session may already have written the file.
func (s *Session) written(root int, path string) bool {
	if s.fresh {
		return false
	}
	if s.stored() {
		return true
	}
	up, err := s.area().Open(store.UpperName(root), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return true
	}
	defer up.Close()
	h, err := up.Open(path, unix.O_PATH|unix.O_NOFOLLOW)
	h.Close()
	return err != unix.ENOENT
}

// heldIndex reads the index that was at a place when the command began. Nil: it is not known.
func (s *Session) heldIndex(at store.Place) []byte {
	h := s.indexes[at]
	if h == nil {
		return nil
	}
	st, err := h.Stat()
	if err != nil || !st.IsReg() || st.Size > tx.IndexMost {
		return nil
	}
	data := make([]byte, st.Size)
	if tree.ReadFull(h, data, 0) != nil || !isIndex(data) {
		return nil
	}
	return data
}
