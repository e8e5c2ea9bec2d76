package textdiff

import (
	"bytes"
	"errors"
	"slices"
)

// Merge applies both the changes from base to ours and those from base to theirs. The same change of the same lines
// counts once. It returns false if both changed the same or neighbouring lines differently, or if a content is not text
// or too large (MaxBytes) and neither side equals base or the other.
func Merge(base, ours, theirs []byte) (merged []byte, ok bool) {
	merged, clashes, err := merge(base, ours, theirs, true)
	return merged, err == nil && clashes == nil
}

// A Clash is where two sides changed the same lines, or lines next to each other, in different ways.
type Clash struct {
	Line               int      // of the first of them in ours, from 1
	Base, Ours, Theirs [][]byte // lines with their ends; they share memory with the texts
}

// ErrNotText is what Clashes returns for contents that are not texts or are too large, see MaxBytes.
var ErrNotText = errors.New("not a text, or too large")

// Clashes returns what prevents a Merge, in the order of lines. None: nothing does.
func Clashes(base, ours, theirs []byte) ([]Clash, error) {
	_, clashes, err := merge(base, ours, theirs, false)
	return clashes, err
}

// Differences returns where two texts differ as clashes without a base.
func Differences(ours, theirs []byte) ([]Clash, error) {
	if !Comparable(ours, theirs) {
		return nil, ErrNotText
	}
	a, b := split(ours), split(theirs)
	t := newTable(len(a))
	an, bn := t.numbers(a), t.numbers(b)
	var list []Clash
	for _, e := range findEdits(an, bn, len(t.lines)) {
		list = append(list, Clash{Line: e.oldStart + 1, Ours: a[e.oldStart:e.oldEnd], Theirs: b[e.newStart:e.newEnd]})
	}
	return list, nil
}

// Contains reports whether a text has all lines of another one, in their order.
func Contains(text, part []byte) bool {
	list, err := Differences(part, text)
	return err == nil && !slices.ContainsFunc(list, func(c Clash) bool { return len(c.Ours) > 0 })
}

// merge merges, or finds all that prevents it; with first, the first.
func merge(base, ours, theirs []byte, first bool) (merged []byte, clashes []Clash, err error) {
	switch {
	case bytes.Equal(ours, theirs), bytes.Equal(base, theirs):
		return ours, nil, nil
	case bytes.Equal(base, ours):
		return theirs, nil, nil
	case !Comparable(base, ours) || !Comparable(base, theirs):
		return nil, nil, ErrNotText
	}
	o, a, b := split(base), split(ours), split(theirs)
	t := newTable(len(o))
	on, an, bn := t.numbers(o), t.numbers(a), t.numbers(b)
	left := side{lines: a, edits: findEdits(on, an, len(t.lines))}
	right := side{lines: b, edits: findEdits(on, bn, len(t.lines))}

	merged = make([]byte, 0, max(len(ours), len(theirs)))
	at := 0 // lines of base that are done
	for len(left.edits) > 0 || len(right.edits) > 0 {
		// A group is all edits that overlap or touch.
		start := len(o)
		for _, s := range [...]*side{&left, &right} {
			if len(s.edits) > 0 {
				start = min(start, s.edits[0].oldStart)
			}
		}
		end := start
		left.taken, right.taken = 0, 0
		for left.take(&end) || right.take(&end) {
		}
		for _, line := range o[at:start] {
			merged = append(merged, line...)
		}
		var use [][]byte
		switch l, r := left.text(start, end), right.text(start, end); {
		case right.taken == 0:
			use = l
		case left.taken == 0:
			use = r
		case equalLines(l, r):
			use = l
		default:
			clashes = append(clashes, Clash{Line: start + left.shift + 1, Base: o[start:end], Ours: l, Theirs: r})
			if first {
				return nil, clashes, nil
			}
		}
		for _, line := range use {
			merged = append(merged, line...)
		}
		left.advance()
		right.advance()
		at = end
	}
	for _, line := range o[at:] {
		merged = append(merged, line...)
	}
	if clashes != nil {
		merged = nil
	}
	return merged, clashes, nil
}

// A side is one of the two changes during a merge.
type side struct {
	lines [][]byte
	edits []edit // those that are not done
	shift int    // how far the lines are behind base's, after those that are done
	taken int    // how many belong to the group
}

// take adds the next edit to the group that ends at end, if it begins there or before.
func (s *side) take(end *int) bool {
	if s.taken == len(s.edits) || s.edits[s.taken].oldStart > *end {
		return false
	}
	*end = max(*end, s.edits[s.taken].oldEnd)
	s.taken++
	return true
}

// text returns what became of base's lines from start to end.
func (s *side) text(start, end int) [][]byte {
	shift := s.shift
	if s.taken > 0 {
		last := s.edits[s.taken-1]
		shift = last.newEnd - last.oldEnd
	}
	return s.lines[start+s.shift : end+shift]
}

func (s *side) advance() {
	if s.taken > 0 {
		last := s.edits[s.taken-1]
		s.shift = last.newEnd - last.oldEnd
		s.edits = s.edits[s.taken:]
	}
}

func equalLines(a, b [][]byte) bool {
	return slices.EqualFunc(a, b, bytes.Equal)
}
