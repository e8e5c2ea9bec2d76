package nsrun

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// DefaultMaxOutput is how much output of each kind is kept, in bytes: about what a model can be expected to read.
const DefaultMaxOutput = 64 << 10

// Output is what a command wrote to a descriptor: all of it, or its beginning and end.
type Output struct {
	Head, Tail []byte // as they were written, whatever that is
	Cut        int64  // how many bytes between the two are gone; zero: none
}

// Bytes returns what was kept, without a line about what was cut.
func (o Output) Bytes() []byte {
	if len(o.Tail) == 0 {
		return o.Head
	}
	return append(bytes.Clone(o.Head), o.Tail...)
}

// String returns what was kept, in a form for people and models: valid UTF-8, with other bytes and
// control characters escaped, such as \x1b or \u202e, and rows of characters that nobody sees, and with a line that
// says what was cut. A line that was cut in two is omitted as a whole, if it is not long.
func (o Output) String() string {
	if o.Cut == 0 {
		return clean(o.Bytes())
	}
	head, tail := o.Head, o.Tail
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 && len(head)-i < longLine {
		head = head[:i+1]
	} else {
		head = wholeRunes(head)
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < longLine {
		tail = tail[i+1:]
	} else {
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	cut := o.Cut + int64(len(o.Head)-len(head)+len(o.Tail)-len(tail))
	var b strings.Builder
	b.WriteString(clean(head))
	if b.Len() > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[%d bytes of output were cut here]\n", cut)
	b.WriteString(clean(tail))
	return b.String()
}

const longLine = 1 << 10

// wholeRunes removes an incomplete character from the end of b.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// misleads reports whether a person sees another text than a model reads: for characters that turn the direction of a
// line, and for tags, which nobody sees.
func misleads(r rune) bool {
	return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || 0xe0000 <= r && r <= 0xe007f
}

// unseen reports whether r looks like nothing where it stands: joiners, marks, selectors of a character's form, and the
// like. Texts need them, but not many in a row, in which somebody could write to a model what no person sees.
func unseen(r rune) bool {
	switch r {
	case 0xad, 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xfeff, 0xffa0:
		return true
	}
	return 0x180b <= r && r <= 0x180f || 0x200b <= r && r <= 0x200f || 0x2060 <= r && r <= 0x206f || 0xfe00 <= r && r <= 0xfe0f ||
		0xfff0 <= r && r <= 0xfffb || 0xe0000 <= r && r <= 0xe0fff
}

// mostUnseen is how many of them stand in a row in honest texts: a selector and a joiner, and one mark.
const mostUnseen = 3

// clean turns bytes into text. Tabs and line ends stay, and CR LF becomes LF.
func clean(b []byte) string {
	plain := true
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return string(b)
	}
	var s strings.Builder
	row := 0 // of what is unseen
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if row++; !unseen(r) {
			row = 0
		}
		switch {
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\n' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0:
			for _, c := range b[:n] {
				fmt.Fprintf(&s, `\x%02x`, c)
			}
		case misleads(r), row > mostUnseen:
			q := strconv.QuoteRuneToASCII(r)
			s.WriteString(q[1 : len(q)-1])
		case r == '\r' && len(b) > 1 && b[1] == '\n':
		case r == '\r':
			s.WriteString(`\r`)
		default:
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String()
}

// A reader is a writer of the caller's that gets output as it comes.
type reader struct {
	mu sync.Mutex // held while to is written to, which can take for ever
	to io.Writer  // nil: nobody
}

func (r *reader) pass(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil {
		if _, err := r.to.Write(p); err != nil {
			r.to = nil
		}
	}
}

// sameWriter reports whether two writers are one, which may not expect two goroutines.
func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// capture keeps the beginning and the end of what is written to it, and passes it on.
type capture struct {
	reader *reader

	mu    sync.Mutex // of what follows
	limit int        // bytes; negative: none
	head  []byte
	ring  []byte // the end; once it is full, from next on around
	next  int
	total int64
}

func newCapture(limit int, to io.Writer) *capture {
	if limit == 0 {
		limit = DefaultMaxOutput
	}
	return &capture{limit: limit, reader: &reader{to: to}}
}

// Write never fails: the reader of the output must not decide what happens to the command.
func (c *capture) Write(p []byte) (int, error) {
	c.keep(p)
	c.reader.pass(p)
	return len(p), nil
}

func (c *capture) keep(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	if c.limit < 0 {
		c.head = append(c.head, p...)
		return
	}
	room := c.limit - c.limit/2 - len(c.head)
	if room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	size := c.limit / 2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if k := min(size-len(c.ring), len(p)); k > 0 {
		c.ring = append(c.ring, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.ring[c.next:], p)
		c.next = (c.next + k) % size
		p = p[k:]
	}
}

// output returns what was kept. More may still be written, so the tail is a copy.
func (c *capture) output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := slices.Concat(c.ring[c.next:], c.ring[:c.next])
	if len(tail) == 0 {
		tail = nil
	}
	return Output{Head: c.head, Tail: tail, Cut: c.total - int64(len(c.head)) - int64(len(tail))}
}
