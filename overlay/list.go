//go:build linux

package overlay

import (
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// List yields the sessions of the state directory dir, the oldest first. An empty dir means DefaultDir; one that does
// not exist holds no sessions. A session that cannot be read is yielded with an error, and with the ID and Dir of its
// Info set; the sessions after it follow.
func List(dir string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		statePath, state, err := openStateDir(dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Info{}, err)
			return
		}
		defer state.Close()
		recoverAll(statePath, state, func(Recovered, error) bool { return true })
		names, err := store.SessionNames(state)
		if err != nil {
			yield(Info{}, &Error{Op: "list sessions", Path: statePath, Err: err})
			return
		}
		type entry struct {
			info Info
			err  error
		}
		// Sessions that began in the same second are sorted together.
		for len(names) > 0 {
			second, _, _ := strings.Cut(names[0], "-")
			var group []entry
			for len(names) > 0 && strings.HasPrefix(names[0], second+"-") {
				info, err := readInfo(state, statePath, names[0])
				if !errors.Is(err, fs.ErrNotExist) { // else it was just removed
					group = append(group, entry{info, err})
				}
				names = names[1:]
			}
			slices.SortStableFunc(group, func(a, b entry) int { return a.info.Created.Compare(b.info.Created) })
			for _, e := range group {
				if !yield(e.info, e.err) {
					return
				}
			}
		}
	}
}

func readInfo(state *tree.Handle, statePath, name string) (Info, error) {
	info := Info{ID: name, Dir: filepath.Join(statePath, name)}
	fail := func(err error) (Info, error) {
		return info, &Error{Op: "read session", Path: info.Dir, Err: err}
	}
	marked := store.Pending(state, name)
	dir, m, err := store.OpenMeta(state, name)
	if err != nil {
		if store.Damaged(err) { // not the whole session is gone
			err = ErrLost
		}
		return fail(err)
	}
	defer dir.Close()
	s := Session{dir: dir, meta: m}
	s.name(name, statePath)
	info = s.Info()
	who, err := store.Locked(dir)
	if err = store.OrGone(state, name, dir, err); err != nil {
		return fail(err)
	}
	info.Busy = who == store.Owner
	// It was on the list before and after: a process that used it in between has not ended yet.
	info.Interrupted = marked && who == store.Unheld && store.Pending(state, name)
	return info, nil
}
