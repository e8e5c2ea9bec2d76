//go:build linux

package tree

import (
	"runtime"
	"slices"
	"sync"
)

const (
	// maxWorkers is how many directories of one directory are read at once.
	maxWorkers = 4

	// prefetchDepth is the deepest level at which directories are prefetched, because that
	// keeps directories open. It is less than maxHeld, so that none is parked meanwhile.
	prefetchDepth = 8

	// MaxAhead is how many directories may be read ahead of the walk.
	MaxAhead = 16
)

// prefetched is a directory that was read before the walk gets there. None of its changes has been yielded.
type prefetched struct {
	sub    *frame
	n      Diff // the directory, compared
	err    error
	names  []string
	sights []sight
	seen   bool // names and sights are complete
	done   bool // all fields are valid
}

// A prefetcher reads the directories among the names of one chunk in several goroutines. The walk is one of them: while
// another one reads the directory that the walk needs, the walk reads the next one. So they wait only at the beginning
// and the end, because waking an idle processor can take as long as reading a directory.
type prefetcher struct {
	w      *Walk
	f      *frame
	names  []string
	sights []sight
	dirs   []int // the indexes of the directories; none: they are not worth it
	team   sync.WaitGroup

	mu    sync.Mutex
	found []prefetched // for each of dirs
	taken int          // how many of dirs somebody began to read
	told  int          // how many the walk has asked for
	over  bool         // no more are wanted
	moved *sync.Cond   // one of these changed, so that somebody may go on
}

// prefetch starts to read the directories among some names.
func (w *Walk) prefetch(f *frame, names []string, sights []sight) *prefetcher {
	s := &prefetcher{w: w, f: f, names: names, sights: sights}
	team := min(runtime.GOMAXPROCS(0), maxWorkers) - 1
	if team < 1 || f.depth >= prefetchDepth {
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
	s.found = make([]prefetched, len(s.dirs))
	s.moved = sync.NewCond(&s.mu)
	for range min(team, len(s.dirs)-1) {
		s.team.Go(s.run)
	}
	return s
}

// run reads one directory after the other.
func (s *prefetcher) run() {
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

// goOn reads the next directory. The caller holds mu, which is unlocked meanwhile.
func (s *prefetcher) goOn() {
	c, i := &s.found[s.taken], s.dirs[s.taken]
	s.taken++
	func() {
		s.mu.Unlock()
		defer s.mu.Lock()
		s.w.prefetchDir(c, s.f, s.names[i], &s.sights[i])
	}()
	c.done = true
	s.moved.Broadcast()
}

// next returns the next prefetched directory. The walk asks for every one, in order. Nil: it was not prefetched.
func (s *prefetcher) next() *prefetched {
	if len(s.dirs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.found[s.told]
	for !c.done {
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

// end closes the directories that the walk did not ask for.
func (s *prefetcher) end() {
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

// prefetchDir reads the directory name of f, which was seen as l.
func (w *Walk) prefetchDir(c *prefetched, f *frame, name string, l *sight) {
	c.sub, c.n = &frame{path: l.path, depth: f.depth + 1, opaque: f.opaque}, l.n
	if c.err = w.enter(f, c.sub, name, &c.n); c.err != nil {
		return
	}
	names, lowErr, err := c.sub.Names()
	if err != nil || lowErr != nil || len(names) > MaxSights {
		c.sub.park()
		return // the walk lists it itself
	}
	c.names, c.seen = names, true
	c.sights = slices.Grow(w.buffer(), len(names))[:len(names)]
	w.look(c.sub, names, c.sights, 0, len(names))
	if f.depth > 0 || !slices.ContainsFunc(c.sights, func(l sight) bool { return l.dir }) {
		c.sub.park() // so that not too many are open; the walk opens again what it needs
	}
}
