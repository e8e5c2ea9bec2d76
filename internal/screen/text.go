//go:build linux

package screen

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Style is how text looks: one of the colours and any of the attributes, added up. The zero Style is plain.
type Style uint8

// The colours, which NO_COLOR switches off, and the attributes.
const (
	Red Style = iota + 1
	Green
	Yellow
	Cyan

	Bold    Style = 1 << 4
	Dim     Style = 1 << 5
	Reverse Style = 1 << 6

	colours = Bold - 1
)

// A Span is text of one style.
type Span struct {
	Text  string
	Style Style

	// At is the column at which the span begins, whatever precedes it; the first column is 0. Zero: the span
	// follows what precedes it.
	At int
}

// A Line is one row of the window.
type Line []Span

// Plain returns the text of the line, with spaces up to the beginning of each span.
func (l Line) Plain() string {
	var b strings.Builder
	width := 0
	for _, s := range l {
		if n := s.At - width; s.At > 0 && n > 0 {
			b.WriteString(strings.Repeat(" ", n))
			width = s.At
		}
		b.WriteString(s.Text)
		width += Width(s.Text)
	}
	return b.String()
}

// maxMarks is how many combining characters one letter may carry; more are escaped.
const maxMarks = 3

// A scanner splits text into the pieces that are shown of it.
type scanner struct {
	rest string
	tabs int // where tabs count from, in columns; negative: they are escaped
	col  int // the column behind what was taken
	mark int // how many combining characters may follow
}

// A piece is one character with its combining ones left out: those are pieces of no width.
type piece struct {
	text    string
	width   int
	escaped bool
}

// next returns the next piece; there must be one.
func (s *scanner) next() piece {
	if c := s.rest[0]; c >= ' ' && c < utf8.RuneSelf-1 {
		p := piece{text: s.rest[:1], width: 1}
		s.rest = s.rest[1:]
		s.col++
		s.mark = maxMarks
		return p
	}
	r, n := utf8.DecodeRuneInString(s.rest)
	text := s.rest[:n]
	s.rest = s.rest[n:]
	if r == '\t' && s.tabs >= 0 {
		w := 8 - (max(s.col-s.tabs, 0))%8
		s.col += w
		s.mark = 0
		return piece{text: "        "[:w], width: w}
	}
	w, ok := runeWidth(r)
	if w == 0 && ok {
		if ok = s.mark > 0; ok {
			s.mark--
		}
	}
	if !ok || r == utf8.RuneError && n == 1 {
		text = escape(text)
		s.col += len(text)
		s.mark = 0
		return piece{text, len(text), true}
	}
	if w > 0 {
		s.mark = maxMarks
	}
	s.col += w
	return piece{text: text, width: w}
}

// escape writes a character that cannot be shown as Go would quote it.
func escape(text string) string {
	q := strconv.QuoteToASCII(text)
	if q = q[1 : len(q)-1]; q == text { // a replacement character that was written out
		return `\ufffd`
	}
	return q
}

// Width returns how many columns s takes as Fit writes it.
func Width(s string) int {
	sc := scanner{rest: s, tabs: -1}
	for sc.rest != "" {
		sc.next()
	}
	return sc.col
}

// Fit returns the part of s that is visible through a window of width columns that begins at column from. It writes
// escapes, in reverse, for what must not reach a terminal. Tabs go to each eighth column, counted from the column tabs;
// if that is negative, they are escaped too. It does not look further than the window.
func Fit(s string, style Style, from, width, tabs int) Line {
	var line Line
	var b strings.Builder
	current := style
	flush := func() {
		if b.Len() > 0 {
			line = append(line, Span{Text: b.String(), Style: current})
			b.Reset()
		}
	}
	sc := scanner{rest: s, tabs: tabs}
	for sc.rest != "" && sc.col <= from+width {
		at := sc.col
		p := sc.next()
		text := p.text
		switch {
		case p.width == 0:
			if at <= from && from > 0 || at > from+width {
				continue
			}
		case sc.col <= from || at >= from+width:
			continue
		case len(text) == p.width: // each byte is a column
			if at < from {
				text = text[from-at:]
			}
			if sc.col > from+width {
				text = text[:len(text)-(sc.col-from-width)]
			}
		default: // half of a wide character is a space
			if at < from || sc.col > from+width {
				text = " "
			}
		}
		want := style
		if p.escaped {
			want ^= Reverse
		}
		if want != current {
			flush()
			current = want
		}
		b.WriteString(text)
	}
	flush()
	return line
}

// FitEnd returns s in at most width columns: all of it, or "…" and its end. Tabs are escaped.
func FitEnd(s string, style Style, width int) Line {
	have := Width(s)
	if have <= width {
		return Fit(s, style, 0, width, -1)
	}
	if width < 1 {
		return nil
	}
	return append(Line{{Text: "…", Style: style}}, Fit(s, style, have-width+1, width-1, -1)...)
}

// runeWidth returns how many columns a character takes; ok is false if it must not be shown.
func runeWidth(r rune) (width int, ok bool) {
	switch {
	case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
		return 0, false
	case r < 0x300:
		return 1, true
	case blank(r):
		return 0, false
	case unicode.In(r, unicode.Mn, unicode.Me) || r >= 0x1160 && r <= 0x11ff:
		return 0, true
	case wide(r):
		return 2, true
	}
	return 1, true
}

// blank reports characters that count as printable and show nothing.
func blank(r rune) bool {
	return r == 0x115f || r == 0x1160 || r == 0x2800 || r == 0x3164 || r == 0xffa0
}

// wide reports characters that take two columns: those that Unicode's EastAsianWidth
// calls W and F, with some unassigned ones between them.
func wide(r rune) bool {
	if r < wides[0].first {
		return false
	}
	lo, hi := 0, len(wides)
	for lo < hi {
		m := (lo + hi) / 2
		switch {
		case r < wides[m].first:
			hi = m
		case r > wides[m].last:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}

var wides = [...]struct{ first, last rune }{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
	{0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2630, 0x2637}, {0x2648, 0x2653}, {0x267f, 0x267f}, {0x268a, 0x268f},
	{0x2693, 0x2693}, {0x26a1, 0x26a1}, {0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce},
	{0x26d4, 0x26d4}, {0x26ea, 0x26ea}, {0x26f2, 0x26f3}, {0x26f5, 0x26f5}, {0x26fa, 0x26fa}, {0x26fd, 0x26fd},
	{0x2705, 0x2705}, {0x270a, 0x270b}, {0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755},
	{0x2757, 0x2757}, {0x2795, 0x2797}, {0x27b0, 0x27b0}, {0x27bf, 0x27bf}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50},
	{0x2b55, 0x2b55}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff},
	{0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18dff}, {0x1aff0, 0x1b2ff},
	{0x1d300, 0x1d356}, {0x1d360, 0x1d376}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
	{0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393},
	{0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e},
	{0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567},
	{0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
	{0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6d7}, {0x1f6dc, 0x1f6df}, {0x1f6eb, 0x1f6ec},
	{0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7eb}, {0x1f7f0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
	{0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
}
