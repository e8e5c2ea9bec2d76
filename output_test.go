//go:build linux

package nsrun

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCapture: of what is too much the beginning and the end are kept, in bounded memory.
func TestCapture(t *testing.T) {
	for _, c := range []struct {
		limit      int
		writes     []string
		head, tail string
		cut        int64
	}{
		{8, nil, "", "", 0},
		{8, []string{"abc"}, "abc", "", 0},
		{8, []string{"abcd", "efgh"}, "abcd", "efgh", 0},
		{8, []string{"abcdefghi"}, "abcd", "fghi", 1},
		{8, []string{"abcd", "efgh", "ij"}, "abcd", "ghij", 2},
		{8, []string{"abcde", "fghij", "klmno"}, "abcd", "lmno", 7},
		{8, []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}, "abcd", "hijk", 3},
		{3, []string{"abcdef"}, "ab", "f", 3},
		{1, []string{"abc"}, "a", "", 2},
		{-1, []string{"abc", "def"}, "abcdef", "", 0},
	} {
		p := newCapture(c.limit, nil)
		for _, w := range c.writes {
			if n, err := p.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%q: %d, %v", w, n, err)
			}
		}
		o := p.output()
		if string(o.Head) != c.head || string(o.Tail) != c.tail || o.Cut != c.cut {
			t.Errorf("%d %q: %q %q %d", c.limit, c.writes, o.Head, o.Tail, o.Cut)
		}
	}
	p := newCapture(0, nil)
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1000)
	for range 1000 {
		_, _ = p.Write(chunk)
	}
	if n := cap(p.head) + cap(p.ring); n > 3*DefaultMaxOutput {
		t.Errorf("%d bytes are held", n)
	}
}

type failAfter struct{ n int }

func (f *failAfter) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("no more")
	}
	return len(p), nil
}

// TestCaptureWriter: a writer that fails is left alone, and costs nothing.
func TestCaptureWriter(t *testing.T) {
	f := &failAfter{4}
	p := newCapture(-1, f)
	for range 5 {
		if n, err := p.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if o := p.output(); len(o.Head) != 15 || f.n != -2 {
		t.Errorf("%q, %d", o.Head, f.n)
	}
}

func TestOutputString(t *testing.T) {
	for _, c := range []struct {
		o    Output
		want string
	}{
		{Output{}, ""},
		{Output{Head: []byte("a\xff\x00b\x7f\r\n\x1b[1m\rä\u0085")}, `a\xff\x00b\x7f` + "\n" + `\x1b[1m\rä\xc2\x85`},
		{Output{Head: []byte("\ufeffa❤\ufe0f\u200d🔥 葛\U000e0101 می\u200cخواهم")}, "\ufeffa❤\ufe0f\u200d🔥 葛\U000e0101 می\u200cخواهم"},
		{Output{Head: []byte("a\u2062\u2064\u2062\u2064\u2062b\ufe01\ufe02\ufe03\U000e0101\u200b")}, "a\u2062\u2064\u2062" + `\u2064\u2062b` + "\ufe01\ufe02\ufe03" + `\U000e0101\u200b`},
		{Output{Head: []byte("a\u202eb\u2066c\U000e0041d \u200d\ufe0f é")}, `a\u202eb\u2066c\U000e0041d ` + "\u200d\ufe0f é"},
		{Output{Head: []byte("one\ntw"), Tail: []byte("ine\nten\n"), Cut: 10}, "one\n[16 bytes of output were cut here]\nten\n"},
		{Output{Head: []byte("aä"), Tail: []byte("\xa4b"), Cut: 10}, "aä\n[11 bytes of output were cut here]\nb"},
		{Output{Head: []byte("a\xc3"), Tail: []byte("b"), Cut: 10}, "a\n[11 bytes of output were cut here]\nb"},
	} {
		if got := c.o.String(); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.o.Head, c.o.Tail, got, c.want)
		}
	}
}

// TestOutputRandom: whatever was written, the text that is read is valid, has nothing that acts on a terminal, and is
// counted correctly. (It is not a fuzz test: with that instrumentation, code that runs in clones has too little stack,
// and nothing here links.)
func TestOutputRandom(t *testing.T) {
	pieces := []string{"a", "line\n", "ä", "\xff", "\xc3", "\x1b[31m", "\r\n", "\r", "\x00", "\u0085", "\u202e", "€", strings.Repeat("x", 1100)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var b []byte
		for range random.IntN(40) {
			b = append(b, pieces[random.IntN(len(pieces))]...)
		}
		limit, step := random.IntN(100), 1+random.IntN(64)
		p := newCapture(limit, nil)
		for rest := b; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			_, _ = p.Write(rest[:min(step, len(rest))])
		}
		o := p.output()
		if limit == 0 {
			limit = DefaultMaxOutput
		}
		if len(o.Head)+len(o.Tail) > limit || int64(len(o.Head)+len(o.Tail))+o.Cut != int64(len(b)) {
			t.Fatalf("%d and %d of %d, cut %d", len(o.Head), len(o.Tail), len(b), o.Cut)
		}
		if !bytes.HasPrefix(b, o.Head) || !bytes.HasSuffix(b, o.Tail) {
			t.Fatalf("%q %q of %q", o.Head, o.Tail, b)
		}
		s := o.String()
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x202e }) {
			t.Fatalf("%q", s)
		}
	}
}
