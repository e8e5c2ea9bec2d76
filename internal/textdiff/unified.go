package textdiff

import (
	"bytes"
	"io"
	"iter"
	"strconv"
)

// context is how many equal lines are shown around what differs.
const context = 3

// A Hunk is one place where two texts differ, with the lines around it.
type Hunk struct {
	// Where it is: the numbers of the first lines, counted from one, and how many. As
	// diff(1) has it the start is one less where there are no lines.
	OldStart, OldLines, NewStart, NewLines int

	Lines []Line
}

// A Line is a line of a hunk.
type Line struct {
	Kind byte   // ' ' for both texts, '-' for the old, '+' for the new one
	Text []byte // with its newline, which the last line of a text may lack
}

// Hunks yields where two texts differ. Contents that are not Comparable are one hunk,
// in which one is replaced by the other.
func Hunks(old, new []byte) iter.Seq[Hunk] {
	return func(yield func(Hunk) bool) {
		a, b, edits := compare(old, new)
		for len(edits) > 0 {
			n := 1
			for n < len(edits) && edits[n].oldStart-edits[n-1].oldEnd <= 2*context {
				n++
			}
			if !yield(makeHunk(a, b, edits[:n])) {
				return
			}
			edits = edits[n:]
		}
	}
}

func compare(old, new []byte) (a, b [][]byte, edits []edit) {
	a, b = split(old), split(new)
	switch {
	case bytes.Equal(old, new):
	case !Comparable(old, new):
		edits = []edit{{0, len(a), 0, len(b)}}
	default:
		t := newTable(len(a))
		an, bn := t.numbers(a), t.numbers(b)
		edits = findEdits(an, bn, len(t.lines))
	}
	return a, b, edits
}

func makeHunk(a, b [][]byte, edits []edit) Hunk {
	first, last := edits[0], edits[len(edits)-1]
	before := min(context, first.oldStart)
	after := min(context, len(a)-last.oldEnd)
	i := first.oldStart - before
	h := Hunk{
		OldStart: i + 1, OldLines: last.oldEnd + after - i,
		NewStart: first.newStart - before + 1, NewLines: last.newEnd + after - (first.newStart - before),
	}
	if h.OldLines == 0 {
		h.OldStart--
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
	add := func(kind byte, lines [][]byte) {
		for _, l := range lines {
			h.Lines = append(h.Lines, Line{kind, l})
		}
	}
	for _, e := range edits {
		add(' ', a[i:e.oldStart])
		add('-', a[e.oldStart:e.oldEnd])
		add('+', b[e.newStart:e.newEnd])
		i = e.oldEnd
	}
	add(' ', a[i:i+after])
	return h
}

// Header returns the hunk's first line, such as "@@ -1,3 +1,4 @@", without a newline.
func (h Hunk) Header() string {
	return "@@ -" + span(h.OldStart, h.OldLines) + " +" + span(h.NewStart, h.NewLines) + " @@"
}

func span(start, n int) string {
	if n == 1 {
		return strconv.Itoa(start)
	}
	return strconv.Itoa(start) + "," + strconv.Itoa(n)
}

// NoNewline is what stands below a line that has no newline.
const NoNewline = `\ No newline at end of file`

// write writes the hunk, with its header.
func (h Hunk) write(w io.Writer) error {
	buf := append([]byte(h.Header()), '\n')
	for _, l := range h.Lines {
		buf = append(append(buf, l.Kind), l.Text...)
		if n := len(l.Text); n == 0 || l.Text[n-1] != '\n' {
			buf = append(append(buf, '\n'), NoNewline+"\n"...)
		}
		if len(buf) > 32<<10 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	_, err := w.Write(buf)
	return err
}

// Count returns how many lines were added and deleted between two texts.
func Count(old, new []byte) (added, deleted int) {
	_, _, edits := compare(old, new)
	for _, e := range edits {
		added += e.newEnd - e.newStart
		deleted += e.oldEnd - e.oldStart
	}
	return added, deleted
}
