package textdiff

import "bytes"

// Merge puts two changes of the text base into one text: those that lead to ours and
// those that lead to theirs. Where both changed the same lines in the same way that is
// one change. It returns false where they changed the same lines, or lines next to each
// other, in different ways; and for contents that are no texts or are too large (see
// MaxBytes), unless one side is as base or both are equal.
//
// Merge(base, x, base) and Merge(base, base, x) are x, and exchanging the sides makes
// no difference. The result may share memory with the arguments.
func Merge(base, ours, theirs []byte) (merged []byte, ok bool) {
	switch {
	case bytes.Equal(ours, theirs), bytes.Equal(base, theirs):
		return ours, true
	case bytes.Equal(base, ours):
		return theirs, true
	case !Comparable(base, ours) || !Comparable(base, theirs):
		return nil, false
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
			return nil, false
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
	return merged, true
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
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
