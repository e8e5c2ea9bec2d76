package overlay

import (
	"runtime"
	"slices"
)

const (
	// maxScouts is how many directories beside each other are looked at at once.
	maxScouts = 4

	// scoutDepth is down to how many levels of directories that is done: scouts hold
	// directories open. It is less than maxHeld, so that none is parked meanwhile.
	scoutDepth = 8
)

// A scout is in a directory before the walk gets there: it sights what is in it, and
// yields nothing.
type scout struct {
	sub    *frame
	n      node // the directory, compared
	err    error
	names  []string
	sights []sight
	seen   bool // names and sights are all that is in it, and listing it was no trouble

	done chan struct{}
}

// wait waits until the scout is back.
func (c *scout) wait() { <-c.done }

// scouts are those of one chunk of names.
type scouts struct {
	w     *walker
	f     *frame
	names []string
	all   []sight

	sent []*scout // that are not back, or were not asked yet; in order
	at   []int    // the index of each one's name
	to   int      // up to which name they were sent
	most int      // zero: they are not worth it
}

// scouts sends the first scouts into the directories among some names.
func (w *walker) scouts(f *frame, names []string, sights []sight) *scouts {
	s := &scouts{w: w, f: f, names: names, all: sights}
	if f.depth < scoutDepth {
		s.most = min(runtime.GOMAXPROCS(0), maxScouts)
	}
	dirs := 0
	for i := range sights {
		if sights[i].dir {
			dirs++
		}
	}
	if dirs < 2 || s.most < 2 {
		s.most = 0
	}
	return s
}

// next returns the scout that was sent to the directory at name i, and sends others into
// the next ones. Nil: none was sent.
func (s *scouts) next(i int) *scout {
	if s.most == 0 {
		return nil
	}
	for ; len(s.sent) <= s.most && s.to < len(s.names); s.to++ {
		if s.all[s.to].dir {
			s.sent = append(s.sent, s.send(s.to))
			s.at = append(s.at, s.to)
		}
	}
	if len(s.sent) == 0 || s.at[0] != i {
		return nil
	}
	first := s.sent[0]
	s.sent, s.at = s.sent[1:], s.at[1:]
	return first
}

func (s *scouts) send(i int) *scout {
	w, f, name, l := s.w, s.f, s.names[i], &s.all[i]
	c := &scout{
		sub: &frame{path: l.path, depth: f.depth + 1, opaque: f.opaque},
		n:   l.n, sights: w.buffer(), done: make(chan struct{}),
	}
	go func() {
		defer close(c.done)
		if c.err = w.enter(f, c.sub, name, &c.n); c.err != nil {
			return
		}
		names, lowErr, err := c.sub.names()
		if err != nil || lowErr != nil || len(names) > maxSights {
			return // the walk will see to it
		}
		c.names, c.seen = names, true
		c.sights = slices.Grow(c.sights, len(names))[:len(names)]
		w.look(c.sub, names, c.sights, 0, len(names))
	}()
	return c
}

// end gives up what was not asked for.
func (s *scouts) end() {
	for _, c := range s.sent {
		c.wait()
		c.sub.close()
	}
	s.sent = nil
}
