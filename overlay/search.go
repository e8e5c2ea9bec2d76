//go:build linux

package overlay

import (
	"context"
	"errors"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A commit must survey the top of each root, because a repository there may lead to any file. In a large project this
// takes as long as everything else that a small commit does, most of which waits for the disk. So a goroutine does it
// meanwhile, and the commit goes on as if nothing led to its files. It waits for the survey before it changes the
// project. If the survey says that other changes run later, the commit removes what it has made, and begins anew.

// A search is a survey that a goroutine makes.
type search struct {
	done chan struct{} // closed when the other fields are valid
	sv   *tree.Survey
	err  error
}

// beforeSearch is called at the beginning of each search, and beforeWait before a commit waits for its searches. They
// are variables for tests.
var beforeSearch, beforeWait = func() {}, func() {}

// searchMost is the number of changes from which a commit waits for its searches before it makes anything: they take
// little time in comparison, and to begin anew would take much.
const searchMost = 200

// errLate says that a search found out that chosen changes run later than the commit could consider it, or that they
// do since another commit.
var errLate = errors.New("files that are being committed run later because of others in the project")

// search starts to survey a root, whose directory is d, and closes d in the end.
func (f *runsFinder) search(root string, d tree.Dir, name string, want func(string) bool) {
	s := &search{done: make(chan struct{})}
	if f.searches == nil {
		f.searches = map[string]*search{}
	}
	f.searches[root] = s
	go func() {
		defer close(s.done)
		defer d.Close()
		beforeSearch()
		s.sv, s.err = tree.SurveyOf(d, name, want, 1)
	}()
}

// searched reports whether all searches have ended.
func (f *runsFinder) searched() bool {
	for _, s := range f.searches {
		select {
		case <-s.done:
		default:
			return false
		}
	}
	return true
}

// awaitSearches waits for all searches.
func (f *runsFinder) awaitSearches() {
	for _, s := range f.searches {
		<-s.done
	}
}

// settle waits for the searches, and marks nodes again if these found anything. It reports whether a mark is another
// one now. A second call does nothing.
func (f *runsFinder) settle(nodes []node) (changed bool, err error) {
	if len(f.searches) == 0 {
		return false, nil
	}
	beforeWait()
	f.ahead = false
	more := f.c.Again()
	f.searches = nil
	if !more && f.blind == nil {
		return false, nil
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Deep != nil {
			continue
		}
		was := n.Runs
		f.mark(n, nil)
		changed = changed || n.Runs != was
	}
	return changed, f.failed
}

// late returns errLate if a search found out that chosen changes run later.
func (c *commit) late() error {
	changed, err := c.runs.settle(c.nodes)
	if err == nil && changed {
		err = errLate
	}
	return err
}

// beginTurn notes which commits there were before this one looks at the project.
func (c *commit) beginTurn() (err error) {
	if c.turn, err = newTurn(c.s.state, c.s.roots); err != nil {
		err = &Error{Op: "open " + turnsName + " beside", Path: c.s.path, Err: err}
	}
	return err
}

// takeTurn waits for the commit's turn. It returns errLate if another commit has made chosen changes run later.
func (c *commit) takeTurn(ctx context.Context) error {
	late, err := c.turn.take(ctx, c.o.Wait, c.o.Waiting)
	if err != nil {
		return &Error{Op: "wait for other commits in", Path: c.s.path, Err: err}
	}
	if !late || c.o.AllowExec {
		return nil
	}
	f := newRunsFinder(c.s, false)
	defer f.close()
	for i := range c.nodes {
		n := c.nodes[i]
		if n.Deep != nil || n.Runs != "" {
			continue
		}
		if n.merged != nil {
			n.Runs = f.merge(&n, n.merged)
		} else {
			f.mark(&n, nil)
		}
		if n.Runs != "" {
			return errLate
		}
	}
	return f.failed
}
