//go:build linux

package overlay

import (
	"iter"
	"sync/atomic"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// walkOptions say what a walk needs besides the changes.
type walkOptions struct {
	twins []map[tree.Inode]tree.Twin // by root, to be filled; nil: not wanted
	times bool                       // nodes that are timeOnly, too
	// retimed counts files whose time alone changed, and directories whose time was set. Nil: they are not counted.
	retimed *atomic.Int64
	// again says that nothing depends on the walk: see survey.
	again bool
	runs  *runsFinder // borrowed; nil: the walk makes one
}

// Changes yields what differs between the session and the project now: root after root, within a root in path order,
// where a directory comes before what is in it and names are compared by their bytes. A deleted directory is one
// Change; a new one is a Change, and so is everything in it.
//
// If something cannot be read, Changes yields an error with a zero Change, and the walk goes on.
//
// For Change.Runs, the first call searches the directories at the top of a root for repositories,
// and so does a call after names in the root changed. A commit always searches.
func (s *Session) Changes() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var retimed atomic.Int64
		for n, err := range s.nodes(walkOptions{retimed: &retimed, again: true}) {
			if n.Deep != nil {
				n.Change = Change{}
			}
			if !yield(n.Change, err) {
				return
			}
		}
		s.retimed.Store(retimed.Load())
	}
}

// Retimed returns how many files differ only in their modification time, as the last complete walk of Changes found.
// Such a difference is not a change, but a commit applies it. Zero: there was no walk, or no such file. Of directories,
// those count whose time was set; most others differ because names came and went, and nobody wants a commit of that.
func (s *Session) Retimed() int { return int(s.retimed.Load()) }

func (s *Session) nodes(o walkOptions) iter.Seq2[node, error] {
	return func(yield func(node, error) bool) {
		runs := o.runs
		if runs == nil {
			runs = newRunsFinder(s, o.again)
			defer runs.close()
		}
		for i := range s.roots {
			w := tree.Walk{Root: s.roots[i].Path, Times: o.times, Retimed: o.retimed}
			w.Yield = func(d tree.Diff, err error) bool {
				n := node{Change: changeOf(w.Root, &d), Diff: d, root: i}
				if err == nil {
					runs.mark(&n, w.TakeRepos())
					if runs.failed != nil {
						yield(node{}, runs.failed)
						return false
					}
				}
				return yield(n, public(err))
			}
			if o.twins != nil {
				w.Twins = o.twins[i]
			}
			if err := s.prepare(&w, i); err != nil {
				if !yield(node{}, err) {
					return
				}
				continue
			}
			runs.lend(i, w.Up, w.Low)
			ok := w.Run()
			runs.giveBack(i)
			w.Up.Close()
			w.Low.Close()
			if !ok {
				return
			}
		}
	}
}

// prepare sets the two sides of w's root, and what is known about them.
func (s *Session) prepare(w *tree.Walk, i int) (err error) {
	if w.Up, w.Low, err = s.trees(i); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Created = s.meta.Began()
	r := s.meta.Roots[i]
	w.Base = tree.Ownership{Mode: r.Mode, UID: r.UID, GID: r.GID}
	for _, st := range s.meta.Settled {
		if st.Root == i && st.Done {
			if w.Settled == nil {
				w.Settled = map[string]int64{}
			}
			w.Settled[string(st.Path)] = st.Upper
		}
	}
	return nil
}
