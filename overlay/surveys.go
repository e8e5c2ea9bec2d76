//go:build linux

package overlay

import "github.com/nsrun/nsrun/overlay/internal/tree"

// known returns the survey of a root that an earlier listing made. Nil: there is none that is good.
func (f *runsFinder) known(d tree.Dir, root string) *tree.Survey {
	if !f.again {
		return nil
	}
	f.s.mu.Lock()
	sv := f.s.surveys[root]
	f.s.mu.Unlock()
	if sv == nil || !sv.Still(d) {
		return nil
	}
	return sv
}

// learn keeps a survey of a root for the next listing.
func (f *runsFinder) learn(root string, sv *tree.Survey) {
	if !sv.Keep {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.surveys == nil {
		f.s.surveys = map[string]*tree.Survey{}
	}
	f.s.surveys[root] = sv
}
