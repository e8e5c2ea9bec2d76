//go:build linux

package tree

import (
	"runtime"
	"slices"
	"sync"
)

const (
	// maxScouts is how many directories beside each other are looked at at once.
	maxScouts = 4

	// scoutDepth is down to how many levels of directories that is done: scouts hold
	// directories open. It is less than maxHeld, so that none is parked meanwhile.
	scoutDepth = 8

	// MaxAhead is how many directories scouts may be ahead of the walk.
	MaxAhead = 16
)

// A scout has been in a directory before the walk gets there: it has sighted what is in
// it, and yielded nothing.
type scout struct {
	sub    *frame
	n      Diff // the directory, compared
	err    error
	names  []string
	sights []sight
	seen   bool // names and sights are all that is in it, and listing it was no trouble
	back   bool // the scout is; the rest is good from then on
}

// scouts look at the directories among the names of one chunk. The walk is one of them:
// while another one is where it wants to go, it looks at the next directory. So nobody
// waits for anybody but at the ends: a processor that sleeps can take as long to wake as
// a directory takes.
type scouts struct {
	w      *Walk
	f      *frame
	names  []string
	sights []sight
	dirs   []int // the indexes of the directories; none: they are not worth it
	team   sync.WaitGroup

	mu    sync.Mutex
	found []scout    // for each of dirs
	taken int        // to how many of dirs somebody went
	told  int        // to how many the walk has come
	over  bool       // no more are wanted
	moved *sync.Cond // any of these has changed so that somebody may go on
}

// scouts sends the first scouts into the directories among some names.
func (w *Walk) scouts(f *frame, names []string, sights []sight) *scouts {
	s := &scouts{w: w, f: f, names: names, sights: sights}
	team := min(runtime.GOMAXPROCS(0), maxScouts) - 1
	if team < 1 || f.depth >= scoutDepth {
		return s
	}
	for i := range sights {
		if sights[i].dir {
			s.dirs = append(s.dirs, i)
		}
	}
	if len(s.dirs) < 2 {
		s.dirs = nil
		return s
	}
	s.found = make([]scout, len(s.dirs))
	s.moved = sync.NewCond(&s.mu)
	for range min(team, len(s.dirs)-1) {
		s.team.Go(s.Run)
	}
	return s
}

// Run goes into one directory after the other.
func (s *scouts) Run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.taken-s.told >= MaxAhead {
			for !s.over && s.taken-s.told > MaxAhead/2 {
				s.moved.Wait()
			}
		}
		if s.over || s.taken == len(s.dirs) {
			return
		}
		s.goOn()
	}
}

// goOn goes into the next directory. The caller holds mu, which is free meanwhile.
func (s *scouts) goOn() {
	c, i := &s.found[s.taken], s.dirs[s.taken]
	s.taken++
	func() {
		s.mu.Unlock()
		defer s.mu.Lock()
		s.w.scout(c, s.f, s.names[i], &s.sights[i])
	}()
	c.back = true
	s.moved.Broadcast()
}

// next returns the scout that was in the directory at name i. The walk asks for every
// directory, in order. Nil: none was sent.
func (s *scouts) next(i int) *scout {
	if len(s.dirs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.found[s.told]
	for !c.back {
		if s.taken < len(s.dirs) && s.taken-s.told < MaxAhead {
			s.goOn()
		} else {
			s.moved.Wait()
		}
	}
	s.told++
	if s.taken-s.told <= MaxAhead/2 {
		s.moved.Broadcast()
	}
	return c
}

// end gives up what was not asked for.
func (s *scouts) end() {
	if len(s.dirs) == 0 {
		return
	}
	s.mu.Lock()
	s.over = true
	s.moved.Broadcast()
	s.mu.Unlock()
	s.team.Wait()
	for i := s.told; i < s.taken; i++ {
		s.found[i].sub.Close()
	}
}

// scout goes into the directory name of f, at which was sighted l.
func (w *Walk) scout(c *scout, f *frame, name string, l *sight) {
	c.sub, c.n = &frame{path: l.path, depth: f.depth + 1, opaque: f.opaque}, l.n
	if c.err = w.enter(f, c.sub, name, &c.n); c.err != nil {
		return
	}
	names, lowErr, err := c.sub.Names()
	if err != nil || lowErr != nil || len(names) > MaxSights {
		c.sub.park()
		return // the walk will see to it
	}
	c.names, c.seen = names, true
	c.sights = slices.Grow(w.buffer(), len(names))[:len(names)]
	w.look(c.sub, names, c.sights, 0, len(names))
	if f.depth > 0 || !slices.ContainsFunc(c.sights, func(l sight) bool { return l.dir }) {
		c.sub.park() // not to hold too many open; the walk opens again what it needs
	}
}
