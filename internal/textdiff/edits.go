package textdiff

import (
	"slices"
	"sort"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// An edit replaces lines of the old text by lines of the new one; either range, half open, may be empty. Edits are in
// order, with at least one common line between two.
type edit struct{ oldStart, oldEnd, newStart, newEnd int }

// minimal bounds the number of differing lines for which the library finds the shortest answer.
const minimal = 50

func findEdits(a, b []rune, numbers int) []edit {
	d := differ{
		a: a, b: b,
		budget: 64*(len(a)+len(b)) + 1<<16,
		inOld:  make([]int32, numbers), inNew: make([]int32, numbers), at: make([]int32, numbers),
	}
	d.compare(edit{0, len(a), 0, len(b)})
	if !d.exact() {
		return whole(a, b)
	}
	return d.slide()
}

// whole replaces one text by another.
func whole(a, b []rune) []edit {
	if slices.Equal(a, b) {
		return nil
	}
	return []edit{{0, len(a), 0, len(b)}}
}

type differ struct {
	a, b   []rune
	found  []edit
	budget int // lines that may still be looked at

	// By line number, for the current part: how often a line occurs, and where. Zero between parts.
	inOld, inNew, at []int32
}

// compare appends the edits of one part. If they are few, they are the shortest. Otherwise it divides the part at lines
// that occur once on both sides, which people take for the same place.
func (d *differ) compare(r edit) {
	for r.oldStart < r.oldEnd && r.newStart < r.newEnd && d.a[r.oldStart] == d.b[r.newStart] {
		r.oldStart++
		r.newStart++
	}
	for r.oldStart < r.oldEnd && r.newStart < r.newEnd && d.a[r.oldEnd-1] == d.b[r.newEnd-1] {
		r.oldEnd--
		r.newEnd--
	}
	size := r.oldEnd - r.oldStart + r.newEnd - r.newStart
	if size == 0 {
		return
	}
	if r.oldStart == r.oldEnd || r.newStart == r.newEnd || d.budget < size {
		d.add(r)
		return
	}
	d.budget -= size
	anchors, common := d.anchors(r)
	if !common {
		d.add(r)
		return
	}
	parts := d.shortest(r)
	differing := 0
	for _, p := range parts {
		differing += p.oldEnd - p.oldStart + p.newEnd - p.newStart
	}
	if differing > minimal && len(anchors) > 0 {
		at := r
		for _, p := range anchors {
			at.oldEnd, at.newEnd = p.old, p.new
			d.compare(at)
			at.oldStart, at.newStart = p.old+1, p.new+1
		}
		at.oldEnd, at.newEnd = r.oldEnd, r.newEnd
		d.compare(at)
		return
	}
	for _, p := range parts {
		if differing > minimal && p != r {
			d.compare(p) // it was given up on
		} else {
			d.add(p)
		}
	}
}

func (d *differ) add(r edit) {
	if n := len(d.found); n > 0 && d.found[n-1].oldEnd == r.oldStart && d.found[n-1].newEnd == r.newStart {
		d.found[n-1].oldEnd, d.found[n-1].newEnd = r.oldEnd, r.newEnd
		return
	}
	d.found = append(d.found, r)
}

func (d *differ) shortest(r edit) []edit {
	diffs := lcs.DiffRunes(d.a[r.oldStart:r.oldEnd], d.b[r.newStart:r.newEnd])
	list := make([]edit, len(diffs))
	for i, f := range diffs {
		list[i] = edit{r.oldStart + f.Start, r.oldStart + f.End, r.newStart + f.ReplStart, r.newStart + f.ReplEnd}
	}
	return list
}

type pair struct{ old, new int }

// anchors returns as many lines as occur once on both sides in the same order; common reports whether there are common
// lines.
func (d *differ) anchors(r edit) (list []pair, common bool) {
	a, b := d.a[r.oldStart:r.oldEnd], d.b[r.newStart:r.newEnd]
	for _, n := range a {
		d.inOld[n]++
	}
	for i, n := range b {
		d.inNew[n]++
		d.at[n] = int32(r.newStart + i)
		common = common || d.inOld[n] > 0
	}
	// The longest increasing subsequence, by patience sorting: tops[k] ends the best one of length k+1.
	var once []pair
	var before, tops []int // indices into once
	for i, n := range a {
		if d.inOld[n] != 1 || d.inNew[n] != 1 {
			continue
		}
		p := pair{r.oldStart + i, int(d.at[n])}
		k := sort.Search(len(tops), func(k int) bool { return once[tops[k]].new >= p.new })
		last := -1
		if k > 0 {
			last = tops[k-1]
		}
		if k == len(tops) {
			tops = append(tops, 0)
		}
		tops[k] = len(once)
		once, before = append(once, p), append(before, last)
	}
	for _, n := range a {
		d.inOld[n] = 0
	}
	for _, n := range b {
		d.inNew[n], d.at[n] = 0, 0
	}
	if len(tops) > 0 {
		for i := tops[len(tops)-1]; i >= 0; i = before[i] {
			list = append(list, once[i])
		}
		slices.Reverse(list)
	}
	return list, common
}

// exact reports whether the text between the edits is equal: a wrong diff loses lines.
func (d *differ) exact() bool {
	i, j := 0, 0
	same := func(oldEnd, newEnd int) bool {
		return i <= oldEnd && j <= newEnd && oldEnd <= len(d.a) && newEnd <= len(d.b) &&
			slices.Equal(d.a[i:oldEnd], d.b[j:newEnd])
	}
	for _, e := range d.found {
		if !same(e.oldStart, e.newStart) || e.oldEnd < e.oldStart || e.newEnd < e.newStart {
			return false
		}
		i, j = e.oldEnd, e.newEnd
	}
	return same(len(d.a), len(d.b))
}

// slide moves added or deleted lines down as far as possible, so that a new function begins with its own first line,
// not with the end of the one before. Edits that touch are joined.
func (d *differ) slide() []edit {
	found := d.found
	out := found[:0:0]
	for i, e := range found {
		limitOld, limitNew := len(d.a), len(d.b)
		if i+1 < len(found) {
			limitOld, limitNew = found[i+1].oldStart, found[i+1].newStart
		}
		deletes, adds := e.newStart == e.newEnd, e.oldStart == e.oldEnd
		for e.oldEnd < limitOld && e.newEnd < limitNew &&
			(deletes && d.a[e.oldStart] == d.a[e.oldEnd] || adds && d.b[e.newStart] == d.b[e.newEnd]) {
			e.oldStart, e.oldEnd = e.oldStart+1, e.oldEnd+1
			e.newStart, e.newEnd = e.newStart+1, e.newEnd+1
		}
		if n := len(out); n > 0 && out[n-1].oldEnd == e.oldStart && out[n-1].newEnd == e.newStart {
			out[n-1].oldEnd, out[n-1].newEnd = e.oldEnd, e.newEnd
			continue
		}
		out = append(out, e)
	}
	return out
}
